#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "mneme/cache/shape.h"
#include "mneme/ops/block_tensor.h"
#include "mneme/quant/block_codec.h"
#include "tests/support/dense_attention.h"
#include "tests/support/matrix.h"

namespace mneme::testing {

/// One token of one layer: its keys and values of all heads, already rounded to the cache's dtype.
struct Token {
  std::vector<float> keys, values;
};

/// What a cache is to be: every token of every sequence in a vector, nothing ever let go. `held_from` follows the crop
/// table of the interface: the first token that a layer of limited retention has not been told to forget.
struct ReferenceLayer {
  /// A block as its codes show it, and the codes themselves.
  struct Sealed {
    std::vector<Token> tokens;
    std::shared_ptr<const ops::DeviceBuffer> codes;
  };
  struct Sequence {
    std::vector<Token> tokens;
    std::int64_t held_from = 0;
    std::vector<Sealed> sealed = {};
    std::vector<bool> recorded = {};  ///< whether a sealed block's raw numbers were kept

    std::int64_t length() const { return std::ssize(tokens); }
    /// Token t as the next query sees it.
    const Token& at(std::int64_t t) const {
      const auto block = static_cast<std::size_t>(t / 64), slot = static_cast<std::size_t>(t % 64);
      return block < sealed.size() ? sealed[block].tokens[slot] : tokens[static_cast<std::size_t>(t)];
    }
  };
  kernels::Visibility visibility;
  std::shared_ptr<const quant::BlockCodec> codec = {};
  std::int64_t residual_blocks = 0;
  std::vector<Sequence> sequences;
  bool recording = false;

  std::int64_t n_sealed_for(std::int64_t query) const {
    return codec ? std::max<std::int64_t>(0, (query + 1) / 64 - residual_blocks) : 0;
  }
  /// The query at this index is the next to look.
  void seal_for(Sequence& s, std::int64_t query) const {
    for (std::int64_t b = std::ssize(s.sealed); b < n_sealed_for(query); ++b) {
      s.sealed.push_back(seal(s.tokens, b));
      s.recorded.push_back(recording);
    }
  }

  void append(std::size_t sequence, const Token& token) {
    sequences[sequence].tokens.push_back(token);
    forget();
  }
  void forget() {
    if (recording) return;
    for (Sequence& s : sequences) s.held_from = std::max(s.held_from, visibility.first_visible(s.length()));
  }
  bool can_crop(std::int64_t n) const {
    return std::ranges::all_of(sequences, [&](const Sequence& s) {
      if (n > s.length()) return false;
      if (n == 0 || !visibility.limited()) return true;
      if (!recording) return s.length() < std::max(visibility.window, visibility.chunk);
      const std::int64_t rest = s.length() - n, needed = visibility.first_visible(rest);
      return needed >= rest || needed >= s.held_from;
    });
  }
  void crop(std::int64_t n) {
    for (Sequence& s : sequences) {
      const std::int64_t rest = s.length() - n, open = rest / 64;
      // The block that is open again holds what is left of it: its raw numbers if they were kept, else its codes.
      for (std::int64_t t = 64 * open; t < rest; ++t) {
        const auto b = static_cast<std::size_t>(open);
        Token& token = s.tokens[static_cast<std::size_t>(t)];
        if (b < s.sealed.size() && !s.recorded[b]) token = s.at(t);
        // Back in a block that is gone: nobody sees its old tokens, but a codec encodes what is in their place.
        if (open >= (visibility.sinks + 63) / 64 && open < s.held_from / 64) {
          std::ranges::fill(token.keys, 0.0f);
          std::ranges::fill(token.values, 0.0f);
        }
      }
      std::int64_t n_sealed = std::min(std::ssize(s.sealed), open);
      while (n_sealed > n_sealed_for(rest - 1) && s.recorded[static_cast<std::size_t>(n_sealed - 1)]) --n_sealed;
      s.sealed.resize(static_cast<std::size_t>(n_sealed));
      s.recorded.assign(static_cast<std::size_t>(n_sealed), false);
      s.tokens.resize(static_cast<std::size_t>(rest));
      s.held_from = std::max(std::min(s.held_from, s.length()), visibility.first_visible(s.length()));
    }
  }
  void select(const std::vector<std::int64_t>& rows) {
    std::vector<Sequence> selected;
    for (const std::int64_t row : rows) selected.push_back(sequences[static_cast<std::size_t>(row)]);
    sequences = std::move(selected);
  }
  /// Block b of these tokens after its codec.
  Sealed seal(const std::vector<Token>& tokens, std::int64_t b) const {
    const kernels::BlockLayout& layout = codec->codes().raw;
    ops::Workspace workspace(at::kCPU);
    const ops::DeviceBuffer raw(layout.block_bytes(), at::kCPU);
    const auto codes = std::make_shared<const ops::DeviceBuffer>(codec->codes().block_bytes(true), at::kCPU);
    Matrix keys(64, layout.n_heads * layout.key_dim), values(64, layout.n_heads * layout.value_dim);
    for (std::int64_t t = 0; t < 64; ++t) {
      std::ranges::copy(tokens[static_cast<std::size_t>(64 * b + t)].keys, keys.row(t));
      std::ranges::copy(tokens[static_cast<std::size_t>(64 * b + t)].values, values.row(t));
    }
    ops::store_tokens(workspace, layout, raw.data(), 0, 64, keys.rows(), 0, values.rows(), 0, 0);
    codec->encode(raw.data(), b == 0, codes->data());
    codec->decode(codes->data(), b == 0, raw.data());
    const auto [k, v] = ops::load_tokens(layout, raw.data(), 0, 64, at::kCPU);
    const auto rows = [](const at::Tensor& heads) {
      return heads.to(at::kFloat).transpose(0, 1).reshape({64, -1}).contiguous();
    };
    const at::Tensor key_rows = rows(k), value_rows = rows(v);
    Sealed result{.tokens = {}, .codes = codes};
    for (std::int64_t t = 0; t < 64; ++t) {
      const auto row = [t](const at::Tensor& m) {
        const float* data = m.const_data_ptr<float>() + t * m.size(1);
        return std::vector<float>(data, data + m.size(1));
      };
      result.tokens.push_back({row(key_rows), row(value_rows)});
    }
    return result;
  }

  /// Tokens that the queries at [first, last) see together.
  std::vector<std::int64_t> seen(std::int64_t first, std::int64_t last) const {
    std::vector<std::int64_t> tokens;
    for (std::int64_t j = 0; j < last; ++j) {
      bool any = false;
      for (std::int64_t i = first; i < last; ++i) any = any || sees(visibility, i, j);
      if (any) tokens.push_back(j);
    }
    return tokens;
  }
};

}  // namespace mneme::testing
