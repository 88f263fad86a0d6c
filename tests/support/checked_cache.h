#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <set>
#include <vector>

#include "mneme/cache/cache.h"
#include "mneme/ops/block_tensor.h"
#include "mneme/ops/hadamard.h"
#include "mneme/ops/linear.h"
#include "tests/support/cache_kinds.h"
#include "tests/support/reference_cache.h"
#include "tests/support/thrown.h"

namespace mneme::testing {

using Counts = std::vector<std::int64_t>;

/// A cache and the reference, given the same steps; after each of them both must show the same.
class CheckedCache {
 public:
  static constexpr std::int64_t kGroup = 2;  ///< query heads of a key/value head

  CheckedCache(const CacheKind& kind, Cache cache, unsigned seed = 1)
      : kind_(kind), cache_(std::move(cache)), random_(seed) {
    for (const LayerPlan& layer : cache_.plan().layers) {
      layers_.push_back({.visibility = layer.retention.visibility(),
                         .codec = layer.codec,
                         .residual_blocks = layer.residual_blocks,
                         .sequences = {}});
    }
  }
  explicit CheckedCache(const CacheKind& kind, unsigned seed = 1) : CheckedCache(kind, kind.make(), seed) {}

  Cache& cache() { return cache_; }
  const std::vector<ReferenceLayer>& reference() const { return layers_; }
  std::int64_t n_sequences() const { return std::ssize(layers_.front().sequences); }
  std::int64_t length(std::size_t sequence) const { return layers_.front().sequences[sequence].length(); }

  /// A copy of both, with random tokens of its own from here on.
  CheckedCache copy(unsigned seed) const {
    CheckedCache other(kind_, cache_.copy(), seed);
    other.layers_ = layers_;
    return other;
  }

  /// Saves the cache and goes on with what is loaded from the file.
  void reload(const std::string& path, const CacheLoadOptions& options = {}) {
    cache_.save(path);
    cache_ = Cache::load(path, kind_.shape(), options);
  }

  /// Appends tokens and attends from each, as a model does; every output must have the bits that attention over the
  /// reference's tokens has.
  void append(const Counts& counts) {
    start(counts.size());
    cache_.prepare(counts);
    std::vector<std::int64_t> row_starts{0};
    for (const std::int64_t n : counts) row_starts.push_back(row_starts.back() + n);
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      const LayerShape& shape = kind_.layers[l];
      Matrix keys = random(row_starts.back(), shape.n_heads * shape.key_dim),
             values = random(row_starts.back(), shape.n_heads * shape.value_dim);
      const Matrix q = random(row_starts.back(), shape.n_heads * kGroup * shape.key_dim);
      for (std::size_t i = 0; i < counts.size(); ++i) {
        for (std::int64_t r = row_starts[i]; r < row_starts[i + 1]; ++r)
          layers_[l].append(i, token(l, keys, values, r));
      }
      const Matrix out = attend(l, row_starts, keys, values, q);
      for (std::size_t i = 0; i < counts.size(); ++i) {
        if (counts[i]) {
          ASSERT_NO_FATAL_FAILURE(expect_attended(l, i, row_starts[i], counts[i], q, out));
        }
      }
    }
    expect_bounded();
  }

  /// Appends n tokens to every sequence by the classic door, which shows what they see.
  void update(std::int64_t n, std::int64_t n_sequences) {
    start(static_cast<std::size_t>(n_sequences));
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      const LayerShape& shape = kind_.layers[l];
      ReferenceLayer& layer = layers_[l];
      const Matrix keys = random(n_sequences * n, shape.n_heads * shape.key_dim),
                   values = random(n_sequences * n, shape.n_heads * shape.value_dim);
      const std::int64_t before = layer.sequences.front().length();
      for (std::int64_t r = 0; r < n_sequences * n; ++r)
        layer.append(static_cast<std::size_t>(r / n), token(l, keys, values, r));
      for (ReferenceLayer::Sequence& sequence : layer.sequences) layer.seal_for(sequence, before);
      const auto heads = [&](const Matrix& m, std::int64_t dim) {
        return Matrix(m).tensor().view({n_sequences, n, shape.n_heads, dim}).transpose(1, 2).clone();
      };
      const auto [k, v] =
          cache_.update(heads(keys, shape.key_dim), heads(values, shape.value_dim), static_cast<std::int64_t>(l));
      ASSERT_NO_FATAL_FAILURE(expect_shown(l, layer.seen(before, before + n), k, v));
      for (ReferenceLayer::Sequence& sequence : layer.sequences) layer.seal_for(sequence, before + n - 1);
    }
    expect_bounded();
  }

  /// Appends tokens that are no numbers and crops them away: the reference never knows of them. A codec that kept no
  /// raw numbers would have encoded them with their neighbours.
  void poison(std::int64_t n) {
    if (kind_.quantized && !layers_.front().recording) return;
    const Counts counts(static_cast<std::size_t>(n_sequences()), n);
    cache_.prepare(counts);
    std::vector<std::int64_t> row_starts{0};
    for (const std::int64_t count : counts) row_starts.push_back(row_starts.back() + count);
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      const LayerShape& shape = kind_.layers[l];
      Matrix keys(row_starts.back(), shape.n_heads * shape.key_dim),
          values(row_starts.back(), shape.n_heads * shape.value_dim);
      for (std::size_t i = 0; i < values.values.size(); i += 2) values.values[i] = kInfinity;
      attend(l, row_starts, keys, values, random(row_starts.back(), shape.n_heads * kGroup * shape.key_dim));
    }
    cache_.crop(-n);
    for (ReferenceLayer& layer : layers_) layer.crop(0);
  }

  bool can_crop(std::int64_t n) const {
    return std::ranges::all_of(layers_, [&](const ReferenceLayer& layer) { return layer.can_crop(n); });
  }
  void crop(std::int64_t n) {
    cache_.crop(-n);
    for (ReferenceLayer& layer : layers_) layer.crop(n);
  }
  void record() {
    cache_.activate_past_recording();
    for (ReferenceLayer& layer : layers_) layer.recording = true;
  }
  void select(const Counts& rows) {
    cache_.select(rows);
    for (ReferenceLayer& layer : layers_) layer.select(rows);
  }
  void repeat(std::int64_t n) {
    Counts rows;
    for (std::int64_t i = 0; i < n_sequences(); ++i) rows.insert(rows.end(), static_cast<std::size_t>(n), i);
    cache_.repeat_interleave(n);
    for (ReferenceLayer& layer : layers_) layer.select(rows);
  }
  void add(const CheckedCache& other) {
    cache_.add_sequences(other.cache_);
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      const std::vector<ReferenceLayer::Sequence> added = other.layers_[l].sequences;  // `other` may be this one
      layers_[l].sequences.insert(layers_[l].sequences.end(), added.begin(), added.end());
    }
  }
  void reset() {
    cache_.reset();
    for (ReferenceLayer& layer : layers_) {
      layer.sequences.clear();
      layer.recording = false;
    }
  }

  /// Lengths, and, where sequences are of one length, all that the next query may see.
  void expect_same() {
    ASSERT_EQ(cache_.n_sequences(), n_sequences());
    std::int64_t longest = 0;
    bool equal = true;
    for (std::size_t i = 0; i < static_cast<std::size_t>(n_sequences()); ++i) {
      longest = std::max(longest, length(i));
      equal = equal && length(i) == length(0);
      for (std::size_t l = 0; l < layers_.size(); ++l)
        ASSERT_EQ(cache_.layers()[l].length(static_cast<std::int64_t>(i)), length(i));
    }
    ASSERT_EQ(cache_.seq_length(), longest);
    if (!equal || n_sequences() == 0) return;
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      std::vector<std::int64_t> seen = layers_[l].seen(longest, longest + 1);
      std::erase(seen, longest);
      const KvLayer& layer = cache_.layers()[l].attention();
      ASSERT_NO_FATAL_FAILURE(expect_shown(l, seen, layer.keys(), layer.values()));
    }
  }

  /// Distinct blocks that a layer holds.
  std::set<const std::byte*> blocks(std::size_t layer) const {
    std::set<const std::byte*> held;
    cache_.layers()[layer].each_block([&](const BlockRef& block) { held.insert(block.data()); });
    return held;
  }
  std::set<const std::byte*> blocks() const {
    std::set<const std::byte*> held;
    for (std::size_t l = 0; l < layers_.size(); ++l) held.merge(blocks(l));
    return held;
  }

 private:
  void start(std::size_t n) {
    if (n_sequences() != 0) return;
    for (ReferenceLayer& layer : layers_) layer.sequences.resize(n);
  }

  Matrix random(std::int64_t n, std::int64_t width) {
    Matrix m = Matrix::random(n, width, static_cast<unsigned>(random_()));
    for (float& x : m.values) x = rounded(kind_.dtype, x);
    return m;
  }

  /// As the cache stores it.
  Token token(std::size_t l, const Matrix& keys, const Matrix& values, std::int64_t row) const {
    Token token{{keys.row(row), keys.row(row + 1)}, {values.row(row), values.row(row + 1)}};
    if (rotates(l)) token.values = rotated(l, token.values);
    return token;
  }
  bool rotates(std::size_t l) const { return cache_.plan().layers[l].rotate_values; }
  std::vector<float> rotated(std::size_t l, std::vector<float> values) const {
    const at::Tensor heads = tensor_of(values).view({kind_.layers[l].n_heads, kind_.layers[l].value_dim});
    const at::Tensor result = ops::rotated(heads.to(ops::scalar_type(kind_.dtype))).to(at::kFloat);
    return {result.const_data_ptr<float>(), result.const_data_ptr<float>() + result.numel()};
  }

  Matrix attend(std::size_t l, const std::vector<std::int64_t>& row_starts, Matrix& keys, Matrix& values, Matrix q) {
    const LayerShape& shape = kind_.layers[l];
    const std::int64_t heads = shape.n_heads * kGroup;
    Matrix out(q.n, heads * shape.value_dim);
    cache_.layers()[l].attention().attend(cache_.workspace(), row_starts,
                                          {.keys = keys.rows(), .values = values.rows()},
                                          {.q = q.rows(), .n_heads = heads, .scale = 0.25f}, out.rows());
    return out;
  }

  /// Attention of the queries at [first_query, first_query + q.n) over blocks that hold every token of the reference,
  /// nothing shared, cropped or let go: codes where it has some, or what they decode to.
  Matrix attend_reference(std::size_t l, std::size_t sequence, std::int64_t first_query, Matrix q, bool encoded) const {
    const ReferenceLayer& layer = layers_[l];
    const ReferenceLayer::Sequence& tokens = layer.sequences[sequence];
    const LayerShape& shape = kind_.layers[l];
    const kernels::BlockLayout layout{
        .format = kind_.dtype, .n_heads = shape.n_heads, .key_dim = shape.key_dim, .value_dim = shape.value_dim};
    const std::int64_t length = tokens.length(), n_blocks = (length + 63) / 64, n_spans = (n_blocks + 7) / 8;
    const ops::DeviceBuffer memory(n_blocks * layout.block_bytes(), at::kCPU);
    std::vector<const std::byte*> blocks(static_cast<std::size_t>(n_spans * 8), nullptr);
    std::vector<const std::byte* const*> spans;
    ops::Workspace workspace(at::kCPU);
    Matrix keys(length, shape.n_heads * shape.key_dim), values(length, shape.n_heads * shape.value_dim);
    for (std::int64_t t = 0; t < length; ++t) {
      std::ranges::copy(tokens.at(t).keys, keys.row(t));
      std::ranges::copy(tokens.at(t).values, values.row(t));
    }
    for (std::int64_t b = 0; b < n_blocks; ++b) {
      std::byte* block = memory.data() + b * layout.block_bytes();
      ops::store_tokens(workspace, layout, block, 0, std::min<std::int64_t>(64, length - 64 * b), keys.rows(), 0,
                        values.rows(), 0, 64 * b);
      blocks[static_cast<std::size_t>(b)] = block;
    }
    const std::int64_t n_sealed = encoded ? std::min(std::ssize(tokens.sealed), n_blocks) : 0;
    for (std::size_t b = 0; b < static_cast<std::size_t>(n_sealed); ++b) blocks[b] = tokens.sealed[b].codes->data();
    for (std::int64_t s = 0; s < n_spans; ++s) spans.push_back(blocks.data() + 8 * s);
    Matrix out(q.n, shape.n_heads * kGroup * shape.value_dim);
    const ops::AttendSequence part{.spans = spans, .first_query = first_query, .n_queries = q.n, .n_sealed = n_sealed};
    ops::attend(workspace, {&part, 1},
                {.layout = layout,
                 .codes = layer.codec ? &layer.codec->codes() : nullptr,
                 .n_heads = shape.n_heads * kGroup,
                 .scale = 0.25f,
                 .visibility = layer.visibility},
                q.rows(), 0, out.rows());
    if (rotates(l)) ops::rotate_heads(workspace, out.rows(), shape.n_heads * kGroup, shape.value_dim);
    return out;
  }

  void expect_attended(std::size_t l, std::size_t sequence, std::int64_t first_row, std::int64_t n, const Matrix& q,
                       const Matrix& out) {
    ReferenceLayer& layer = layers_[l];
    ReferenceLayer::Sequence& tokens = layer.sequences[sequence];
    const std::int64_t first_query = tokens.length() - n;
    for (std::int64_t done = 0; done < n;) {
      // Queries that see the same blocks sealed.
      const std::int64_t i = first_query + done;
      std::int64_t count = 1;
      while (done + count < n && layer.n_sealed_for(i + count) == layer.n_sealed_for(i)) ++count;
      layer.seal_for(tokens, i);
      Matrix queries(count, q.width);
      std::copy_n(q.row(first_row + done), count * q.width, queries.row(0));
      const Matrix expected = attend_reference(l, sequence, i, queries, true);
      const std::vector<float> got(out.row(first_row + done), out.row(first_row + done + count));
      ASSERT_EQ(bits(got), bits(expected.values)) << "attention of layer " << l << ", sequence " << sequence;
      // Multiplying codes rounds queries and probabilities to 8 bits, no more.
      if (!tokens.sealed.empty()) {
        const Matrix decoded = attend_reference(l, sequence, i, queries, false);
        for (std::size_t k = 0; k < got.size(); ++k)
          ASSERT_NEAR(got[k], decoded.values[k], 0.1) << "attention of layer " << l << ", sequence " << sequence;
      }
      done += count;
    }
  }

  void expect_shown(std::size_t l, const std::vector<std::int64_t>& seen, const at::Tensor& keys,
                    const at::Tensor& values) const {
    const LayerShape& shape = kind_.layers[l];
    const auto expect = [&](const at::Tensor& shown, std::int64_t dim, const auto& part) {
      ASSERT_EQ(shown.sizes(), at::IntArrayRef({n_sequences(), shape.n_heads, std::ssize(seen), dim})) << "layer " << l;
      std::vector<float> expected;
      for (const ReferenceLayer::Sequence& s : layers_[l].sequences) {
        for (const std::int64_t j : seen) {
          const std::vector<float> token = part(s.at(j));
          expected.insert(expected.end(), token.begin(), token.end());
        }
      }
      const at::Tensor got = shown.to(at::kFloat).transpose(1, 2).contiguous();
      ASSERT_EQ(bits({got.const_data_ptr<float>(), got.const_data_ptr<float>() + got.numel()}), bits(expected))
          << "layer " << l;
    };
    ASSERT_NO_FATAL_FAILURE(expect(keys, shape.key_dim, [](const Token& t) { return t.keys; }));
    ASSERT_NO_FATAL_FAILURE(
        expect(values, shape.value_dim, [&](const Token& t) { return rotates(l) ? rotated(l, t.values) : t.values; }));
  }

  /// A layer of limited retention that does not record holds what may be seen and at most one block more; sinks have
  /// blocks of their own.
  void expect_bounded() const {
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      const kernels::Visibility& v = layers_[l].visibility;
      if (layers_[l].recording || !v.limited()) continue;
      const std::int64_t past = std::max(v.window, v.chunk) - 1;
      // A layer that seals has its open blocks besides.
      const std::int64_t most = (v.sinks + 63) / 64 + (past + 63) / 64 + 1 + (kind_.seals() ? 2 : 0);
      ASSERT_LE(std::ssize(blocks(l)), n_sequences() * most) << "layer " << l;
    }
  }

  CacheKind kind_;
  Cache cache_;
  std::vector<ReferenceLayer> layers_;
  std::mt19937 random_;
};

/// The message of `action`, which must throw and change nothing of the cache.
template <class Action>
std::string refused(CheckedCache& c, ErrorKind kind, const Action& action) {
  const std::set<const std::byte*> blocks = c.blocks();
  const std::int64_t n_bytes = c.cache().n_bytes();
  const std::string message = thrown(kind, action);
  EXPECT_EQ(c.blocks(), blocks);
  EXPECT_EQ(c.cache().n_bytes(), n_bytes);
  c.expect_same();
  return message;
}

}  // namespace mneme::testing
