#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <ostream>

#include "mneme/base/flush_denormals.h"
#include "mneme/kernels/attention.h"
#include "tests/kernels/tables_under_test.h"
#include "tests/support/floats.h"

/// Attentions of one key/value head, what they should give, and every instruction set's result however it is cut.
namespace mneme::kernels::attention_cases {

using testing::bits;
using testing::kInfinity;
using testing::kNan;
using testing::random_floats;
using Vector = std::vector<float>;

/// One attention: queries [n_queries, group, key_dim] at indices first_query .. over the keys and values of all tokens
/// up to the last query, or of n_keys tokens that all queries see.
struct Case {
  DType format = DType::kFloat32;
  std::int64_t group = 1, key_dim = 16, value_dim = 16, first_query = 0, n_queries = 1;
  Visibility visibility = {};
  float softcap = 0;
  bool sink_logits = false;
  std::int64_t n_keys = 0;
  std::optional<std::int64_t> bias_reach = {};
  std::optional<float> other_scale = {};

  std::int64_t n_tokens() const { return n_keys ? n_keys : first_query + n_queries; }
  /// One past the last token that a query sees.
  std::int64_t end(std::int64_t query) const { return n_keys ? n_keys : query + 1; }
  std::int64_t n_rows() const { return n_queries * group; }
  float scale() const { return other_scale.value_or(1.0f / std::sqrt(static_cast<float>(key_dim))); }

  friend std::ostream& operator<<(std::ostream& out, const Case& c) {
    return out << name_of(c.format) << " group " << c.group << " dims " << c.key_dim << ',' << c.value_dim << " first "
               << c.first_query << " n " << c.n_queries << " window " << c.visibility.window << " chunk "
               << c.visibility.chunk << " sinks " << c.visibility.sinks << " softcap " << c.softcap << " keys "
               << c.n_keys << " bias up to " << c.bias_reach.value_or(-1) << " scale " << c.scale();
  }
};

inline Vector rounded(DType format, Vector x) {
  for (float& value : x) {
    if (format == DType::kBFloat16) value = from_bfloat16(to_bfloat16(value));
    if (format == DType::kFloat16) value = from_float16(to_float16(value));
  }
  return x;
}

/// Inputs of a case. Keys, values and bfloat16 queries are such that storing them loses nothing.
struct Inputs {
  Case c;
  Vector q, keys, values, sink_logits;
  Vector bias;  ///< [group, 2 reach + 1]

  explicit Inputs(const Case& wanted, unsigned seed = 1)
      : c(wanted),
        q(rounded(c.format == DType::kBFloat16 ? c.format : DType::kFloat32,
                  random_floats(c.n_rows() * c.key_dim, seed, 2.0f))),
        keys(rounded(c.format, random_floats(c.n_tokens() * c.key_dim, seed + 1))),
        values(rounded(c.format, random_floats(c.n_tokens() * c.value_dim, seed + 2))) {
    if (c.sink_logits) sink_logits = random_floats(c.group, seed + 3, 2.0f);
    if (c.bias_reach) bias = random_floats(c.group * (2 * *c.bias_reach + 1), seed + 4, 2.0f);
  }
};

/// The table that the kernel reads: each end repeated so that a block of 64 is one piece.
inline Vector bias_table(const Inputs& in) {
  Vector table;
  const std::int64_t width = 2 * in.c.bias_reach.value() + 1;
  for (std::int64_t head = 0; head < in.c.group; ++head) {
    const auto first = in.bias.begin() + head * width;
    table.insert(table.end(), kBlockTokens - 1, *first);
    table.insert(table.end(), first, first + width);
    table.insert(table.end(), kBlockTokens - 1, *(first + width - 1));
  }
  return table;
}

/// softmax(mask(softcap(scale q k^T) + bias)) v in double precision, [n_rows, value_dim].
inline Vector reference(const Inputs& in) {
  const Case& c = in.c;
  Vector out(c.n_rows() * c.value_dim);
  for (std::int64_t r = 0; r < c.n_rows(); ++r) {
    const std::int64_t i = c.first_query + r / c.group;
    std::vector<double> scores(c.n_tokens(), -kInfinity);
    double largest = c.sink_logits ? in.sink_logits[r % c.group] : -kInfinity;
    for (std::int64_t j = 0; j < c.end(i); ++j) {
      const bool in_window = !c.visibility.window || j > i - c.visibility.window;
      const bool window_rules = c.visibility.window && i >= c.visibility.window;
      const bool in_chunk = !c.visibility.chunk || window_rules || j / c.visibility.chunk == i / c.visibility.chunk;
      if (!(in_window && in_chunk) && j >= c.visibility.sinks) continue;
      double score = 0;
      for (std::int64_t k = 0; k < c.key_dim; ++k) {
        score += static_cast<double>(in.q[r * c.key_dim + k]) * in.keys[j * c.key_dim + k];
      }
      score *= c.scale();
      if (c.softcap != 0) score = c.softcap * std::tanh(score / c.softcap);
      if (c.bias_reach) {
        const std::int64_t reach = *c.bias_reach;
        score += in.bias[r % c.group * (2 * reach + 1) + std::clamp(j - i, -reach, reach) + reach];
      }
      scores[j] = score;
      largest = std::max(largest, score);
    }
    double sum = c.sink_logits ? std::exp(in.sink_logits[r % c.group] - largest) : 0.0;
    for (double& score : scores) sum += score = std::exp(score - largest);
    for (std::int64_t n = 0; n < c.value_dim; ++n) {
      double y = 0;
      for (std::int64_t j = 0; j < c.end(i); ++j) y += scores[j] / sum * in.values[j * c.value_dim + n];
      out[r * c.value_dim + n] = static_cast<float>(y);
    }
  }
  return out;
}

/// The tokens of a case in blocks of two heads; the second is the one in use. Spare slots hold what an earlier sequence
/// may have left: stale values, and keys that are no numbers.
class Blocks {
 public:
  explicit Blocks(const Inputs& in)
      : layout_{.format = in.c.format, .n_heads = 2, .key_dim = in.c.key_dim, .value_dim = in.c.value_dim} {
    const Case& c = in.c;
    const FormatKernels& kernels = tables_under_test().front()->of(c.format);
    const Vector bad_keys(kBlockTokens * c.key_dim, kNan), stale_values(kBlockTokens * c.value_dim, 1e4f);
    for (std::int64_t first = 0; first < c.n_tokens(); first += kBlockTokens) {
      const std::int64_t n = std::min(kBlockTokens, c.n_tokens() - first);
      auto* block = new (std::align_val_t{64}) std::byte[layout_.block_bytes()]();
      storage_.emplace_back(block);
      std::byte* tile = block + layout_.head_bytes();
      kernels.store_tokens(layout_, tile, n, kBlockTokens - n, bad_keys.data(), c.key_dim, stale_values.data(),
                           c.value_dim);
      kernels.store_tokens(layout_, tile, 0, n, in.keys.data() + first * c.key_dim, c.key_dim,
                           in.values.data() + first * c.value_dim, c.value_dim);
    }
  }

  const BlockLayout& layout() const { return layout_; }
  std::int64_t size() const { return static_cast<std::int64_t>(storage_.size()); }
  const std::byte* operator[](std::int64_t block) const { return storage_[block].get(); }

 private:
  struct Free {
    void operator()(std::byte* block) const { ::operator delete[](block, std::align_val_t{64}); }
  };
  BlockLayout layout_;
  std::vector<std::unique_ptr<std::byte[], Free>> storage_;
};

/// How a case is cut into calls: none of it may show in the result.
struct Cut {
  std::int64_t rows = kMaxAttendRows;
  bool last_span_first = false;
};

inline Vector attend(const Table& table, const Inputs& in, const Cut& cut = {}) {
  const FlushDenormals mode;
  const Case& c = in.c;
  const Blocks blocks(in);
  const FormatKernels& kernels = table.of(c.format);

  const std::int64_t prepared = kernels.prepared_bytes(c.key_dim);
  std::vector<float> prepared_q(c.n_rows() * prepared / 4 + 16);
  auto* q = reinterpret_cast<const std::byte*>(in.q.data());
  std::int64_t q_stride = c.key_dim * 4;
  if (prepared) {
    auto* aligned = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(prepared_q.data()) + 63) / 64 * 64);
    kernels.prepare(in.q.data(), c.key_dim, c.n_rows(), c.key_dim, aligned);
    q = aligned;
    q_stride = prepared;
  }

  const Vector bias = c.bias_reach ? bias_table(in) : Vector();
  const std::int64_t state_floats = attend_state_floats(c.value_dim);
  Vector out(c.n_rows() * c.value_dim, kNan);
  for (std::int64_t row = 0; row < c.n_rows(); row += cut.rows) {
    const std::int64_t n_rows = std::min(cut.rows, c.n_rows() - row);
    const std::int64_t first_query = c.first_query + row / c.group,
                       last_query = c.first_query + (row + n_rows - 1) / c.group, last_key = c.end(last_query) - 1;
    // A block that none of these rows sees is not there. Nor is anything before the first that is seen, sinks apart.
    const std::int64_t first_seen =
        std::min(c.visibility.first_visible(first_query), c.visibility.first_visible(last_query));
    std::vector<const std::byte*> pointers;
    for (std::int64_t b = 0; b < blocks.size(); ++b) {
      const bool seen = b * kBlockTokens <= last_key && (b + 1) * kBlockTokens > first_seen;
      pointers.push_back(seen || b * kBlockTokens < c.visibility.sinks ? blocks[b] : nullptr);
    }
    const std::int64_t first_block = c.visibility.sinks ? 0 : first_seen / kBlockTokens;
    const AttendArgs args{.q = q + row * q_stride,
                          .q_stride = q_stride,
                          .n_rows = n_rows,
                          .first_row = row % c.group,
                          .group = c.group,
                          .first_query = first_query,
                          .n_keys = c.n_keys,
                          .blocks = pointers.data() + first_block,
                          .first_block = first_block,
                          .head_offset = blocks.layout().head_bytes(),
                          .key_dim = c.key_dim,
                          .value_dim = c.value_dim,
                          .scale = c.scale(),
                          .softcap = c.softcap,
                          .visibility = c.visibility,
                          .bias = {.table = c.bias_reach ? bias.data() : nullptr, .reach = c.bias_reach.value_or(0)}};

    std::vector<Vector> parts;
    for (std::int64_t begin = 0; begin < blocks.size(); begin += kSpanBlocks)
      parts.emplace_back(n_rows * state_floats, 7.0f);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::size_t span = cut.last_span_first ? parts.size() - 1 - i : i;
      const std::int64_t begin = static_cast<std::int64_t>(span) * kSpanBlocks;
      kernels.attend(args, std::max(begin, first_block),
                     std::max(std::min(begin + kSpanBlocks, blocks.size()), first_block), parts[span].data());
    }
    for (std::size_t span = 1; span < parts.size(); ++span) {
      table.merge_states(parts[0].data(), parts[span].data(), n_rows, c.value_dim);
    }
    std::vector<float*> rows;
    for (std::int64_t r = 0; r < n_rows; ++r) rows.push_back(out.data() + (row + r) * c.value_dim);
    table.finish_states(parts[0].data(), n_rows, row % c.group, c.group, c.value_dim,
                        c.sink_logits ? in.sink_logits.data() : nullptr, rows.data());
  }
  return out;
}

/// p is rounded to bfloat16 (2^-9), all else is float32.
inline double tolerance(DType format) { return format == DType::kBFloat16 ? 6e-3 : 1e-5; }

/// Right, and the same bits on every instruction set and however it is cut.
inline void check(const Case& c) {
  SCOPED_TRACE(::testing::PrintToString(c));
  const Inputs in(c);
  const Vector exact = reference(in), expected = attend(*tables_under_test().front(), in);
  for (std::size_t i = 0; i < exact.size(); ++i) ASSERT_NEAR(expected[i], exact[i], tolerance(c.format)) << i;
  for (const Table* table : tables_under_test()) {
    SCOPED_TRACE(table->name);
    ASSERT_EQ(bits(attend(*table, in)), bits(expected));
    ASSERT_EQ(bits(attend(*table, in, {.last_span_first = true})), bits(expected));
    for (std::int64_t rows : {1, 5, 7, 16, 17})
      ASSERT_EQ(bits(attend(*table, in, {.rows = rows})), bits(expected)) << rows;
  }
}

constexpr DType kFormats[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

}  // namespace mneme::kernels::attention_cases
