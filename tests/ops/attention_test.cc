#include "mneme/ops/attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <ostream>

#include "mneme/ops/block_tensor.h"
#include "tests/support/dense_attention.h"
#include "tests/support/matrix.h"
#include "tests/support/thrown.h"

namespace mneme::ops {
namespace {

using kernels::BlockLayout;
using kernels::kBlockTokens;
using kernels::kSpanBlocks;
using kernels::Visibility;
using testing::bits;
using testing::kDTypes;
using testing::Matrix;
using testing::rounded;
using testing::Threads;
using testing::thrown;

struct Shape {
  DType format = DType::kFloat32;
  std::int64_t n_heads = 2, group = 1, key_dim = 16, value_dim = 16;
  Visibility visibility = {};
  float softcap = 0;
  bool sink_logits = false;
  bool sees_all = false;  ///< each query sees all tokens of its sequence
  std::optional<std::int64_t> bias_reach = {};

  std::int64_t n_queries() const { return n_heads * group; }
  BlockLayout layout() const {
    return {.format = format, .n_heads = n_heads, .key_dim = key_dim, .value_dim = value_dim};
  }
  friend std::ostream& operator<<(std::ostream& out, const Shape& s) {
    return out << name_of(s.format) << ' ' << s.n_heads << " heads x " << s.group << " of " << s.key_dim << ','
               << s.value_dim << " window " << s.visibility.window << " chunk " << s.visibility.chunk << " sinks "
               << s.visibility.sinks << " softcap " << s.softcap << " sink logits " << s.sink_logits << " sees all "
               << s.sees_all << " bias up to " << s.bias_reach.value_or(-1);
  }
};

/// One sequence of `past` + `n` tokens in blocks; those that no new query may see are not there, as a cache leaves it.
class Sequence {
 public:
  Sequence(const Shape& shape, std::int64_t past, std::int64_t n, unsigned seed)
      : shape_(shape),
        past_(past),
        n_(n),
        keys_(Matrix::random(past + n, shape.n_heads * shape.key_dim, seed)),
        values_(Matrix::random(past + n, shape.n_heads * shape.value_dim, seed + 1)),
        memory_((past + n + kBlockTokens - 1) / kBlockTokens * shape.layout().block_bytes(), at::kCPU) {
    for (Matrix* m : {&keys_, &values_}) {
      for (float& x : m->values) x = rounded(shape.format, x);
    }
    Workspace workspace(at::kCPU);
    const BlockLayout layout = shape.layout();
    const std::int64_t first_needed = shape.visibility.first_visible(past) / kBlockTokens;
    for (std::int64_t token = 0; token < past + n; token += kBlockTokens) {
      const std::int64_t b = token / kBlockTokens;
      std::byte* block = memory_.data() + b * layout.block_bytes();
      const std::int64_t count = std::min(kBlockTokens, past + n - token);
      store_tokens(workspace, layout, block, 0, count, keys_.rows(), 0, values_.rows(), 0, token);
      const bool held = b >= first_needed || token < shape.visibility.sinks;
      blocks_.push_back(held ? block : nullptr);
    }
    blocks_.resize((blocks_.size() + kSpanBlocks - 1) / kSpanBlocks * kSpanBlocks, nullptr);
    first_span_ = shape.visibility.sinks ? 0 : first_needed / kSpanBlocks;
    for (std::size_t b = static_cast<std::size_t>(first_span_ * kSpanBlocks); b < blocks_.size(); b += kSpanBlocks)
      spans_.push_back(blocks_.data() + b);
  }

  std::int64_t n() const { return n_; }
  AttendSequence part(std::int64_t first_row) const { return part(first_row, 0, n_); }
  /// Queries [skip, skip + count) alone.
  AttendSequence part(std::int64_t first_row, std::int64_t skip, std::int64_t count) const {
    return {.spans = spans_,
            .first_span = first_span_,
            .first_query = past_ + skip,
            .first_row = first_row,
            .n_queries = count,
            .n_keys = shape_.sees_all ? past_ + n_ : 0};
  }

  std::vector<double> expected(const Matrix& q, std::int64_t row, std::int64_t query, std::int64_t head, float scale,
                               const std::vector<float>& sinks, const std::vector<float>& bias) const {
    std::vector<float> rounded_q(q.row(row) + head * shape_.key_dim, q.row(row) + (head + 1) * shape_.key_dim);
    if (shape_.format == DType::kBFloat16) {
      for (float& x : rounded_q) x = rounded(shape_.format, x);
    }
    const std::int64_t kv = head / shape_.group;
    const testing::DenseAttention dense{
        .key_dim = shape_.key_dim,
        .value_dim = shape_.value_dim,
        .scale = scale,
        .softcap = shape_.softcap,
        .visibility = shape_.visibility,
        .n_keys = shape_.sees_all ? past_ + n_ : 0,
        .bias = bias.empty() ? std::function<double(std::int64_t)>() : [&](std::int64_t distance) -> double {
          const std::int64_t reach = *shape_.bias_reach;
          const std::int64_t d = std::clamp(distance, -reach, reach);
          return bias[static_cast<std::size_t>(head * (2 * reach + 1) + reach + d)];
        }};
    return dense(
        rounded_q.data(), past_ + query, [&](std::int64_t j) { return keys_.row(j) + kv * shape_.key_dim; },
        [&](std::int64_t j) { return values_.row(j) + kv * shape_.value_dim; },
        sinks.empty() ? std::optional<double>() : sinks[static_cast<std::size_t>(head)]);
  }

 private:
  Shape shape_;
  std::int64_t past_, n_;
  Matrix keys_, values_;
  DeviceBuffer memory_;
  std::vector<const std::byte*> blocks_;
  std::vector<const std::byte* const*> spans_;
  std::int64_t first_span_ = 0;
};

/// A batch of sequences and its queries.
struct Batch {
  Shape shape;
  std::vector<std::unique_ptr<Sequence>> sequences;
  Matrix q;
  std::vector<float> sinks;
  std::vector<float> bias;  // [heads, 2 reach + 1]
  float scale;
  static constexpr std::int64_t kOffset = 3;  // queries begin here in a row

  Batch(const Shape& s, const std::vector<std::pair<std::int64_t, std::int64_t>>& past_and_new)
      : shape(s), q(0, 0), scale(1 / std::sqrt(static_cast<float>(s.key_dim))) {
    std::int64_t n = 0;
    for (const auto& [past, fresh] : past_and_new) {
      sequences.push_back(std::make_unique<Sequence>(s, past, fresh, static_cast<unsigned>(10 * sequences.size() + 1)));
      n += fresh;
    }
    q = Matrix::random(n, kOffset + s.n_queries() * s.key_dim + 2, 99, 2.0f);
    if (s.sink_logits) sinks = testing::random_floats(s.n_queries(), 98);
    if (s.bias_reach) bias = testing::random_floats(s.n_queries() * (2 * *s.bias_reach + 1), 97, 2.0f);
  }

  AttendOptions options() const {
    return {.layout = shape.layout(),
            .n_heads = shape.n_queries(),
            .scale = scale,
            .softcap = shape.softcap,
            .visibility = shape.visibility,
            .sinks = sinks.empty() ? at::Tensor() : testing::tensor_of(sinks),
            .relative_bias = bias.empty() ? at::Tensor() : bias_table()};
  }

  /// The distances in reach, and 63 copies of either end beside them.
  at::Tensor bias_table() const {
    const at::Tensor values = testing::tensor_of(bias).view({shape.n_queries(), -1});
    const std::int64_t n = values.size(1), rest = kBlockTokens - 1;
    return at::cat({values.narrow(1, 0, 1).expand({-1, rest}), values, values.narrow(1, n - 1, 1).expand({-1, rest})},
                   1)
        .contiguous();
  }

  Matrix run(Workspace& workspace) {
    std::vector<AttendSequence> parts;
    std::int64_t row = 0;
    for (const auto& s : sequences) {
      parts.push_back(s->part(row));
      row += s->n();
    }
    Matrix out(q.n, shape.n_queries() * shape.value_dim);
    attend(workspace, parts, options(), q.rows(), kOffset, out.rows());
    return out;
  }

  /// bfloat16 rounds p to 8 bits (2^-9 each, and sum p = 1 times |v| < 5); all else is float32: some hundred roundings
  /// of scores up to 30.
  double tolerance() const { return shape.format == DType::kBFloat16 ? 1e-2 : 2e-5; }

  void expect_right(const Matrix& out) const {
    Matrix queries(q.n, shape.n_queries() * shape.key_dim);
    for (std::int64_t i = 0; i < q.n; ++i) std::copy_n(q.row(i) + kOffset, queries.width, queries.row(i));
    std::int64_t row = 0;
    for (const auto& s : sequences) {
      for (std::int64_t i = 0; i < s->n(); ++i, ++row) {
        for (std::int64_t h = 0; h < shape.n_queries(); ++h) {
          const std::vector<double> exact = s->expected(queries, row, i, h, scale, sinks, bias);
          for (std::int64_t d = 0; d < shape.value_dim; ++d) {
            ASSERT_NEAR(out.row(row)[h * shape.value_dim + d], exact[static_cast<std::size_t>(d)], tolerance())
                << "row " << row << " head " << h << " channel " << d;
          }
        }
      }
    }
  }
};

/// Right on both paths, and the same bits with any number of threads: 1 thread takes tile after tile, 4 share the spans
/// of a few.
void check_batch(const Shape& shape, const std::vector<std::pair<std::int64_t, std::int64_t>>& past_and_new) {
  SCOPED_TRACE(::testing::PrintToString(shape) + " past and new " + ::testing::PrintToString(past_and_new));
  Batch batch(shape, past_and_new);
  std::vector<std::uint32_t> expected;
  for (const int threads : {1, 4}) {
    const Threads pool(threads);
    Workspace workspace(at::kCPU);
    const Matrix out = batch.run(workspace);
    if (expected.empty()) {
      ASSERT_NO_FATAL_FAILURE(batch.expect_right(out));
      expected = bits(out.values);
    }
    ASSERT_EQ(bits(out.values), expected) << threads << " threads";
  }
  Workspace through_aten(at::kCPU);
  through_aten.set_through_aten(true);
  ASSERT_NO_FATAL_FAILURE(batch.expect_right(batch.run(through_aten))) << "through ATen";
}

TEST(Attention, LengthsAroundBlocksAndSpans) {
  for (const DType format : kDTypes) {
    for (const std::int64_t past : {0, 1, 62, 63, 64, 65, 127, 128, 510, 511, 512, 513, 1023, 1024, 1099}) {
      ASSERT_NO_FATAL_FAILURE(check_batch({.format = format}, {{past, 1}}));
    }
    for (const std::int64_t past : {0, 63, 500, 1024})
      ASSERT_NO_FATAL_FAILURE(check_batch({.format = format}, {{past, 70}}));
  }
}

TEST(Attention, WindowsChunksAndSinks) {
  std::vector<Visibility> all;
  for (const std::int64_t window : {1, 2, 8, 64, 65, 100, 600}) all.push_back({.window = window});
  for (const std::int64_t chunk : {8, 64, 70}) all.push_back({.chunk = chunk});
  for (const std::int64_t sinks : {1, 4, 64, 70}) all.push_back({.window = 20, .sinks = sinks});
  for (const Visibility& visibility : all) {
    for (const DType format : {DType::kFloat32, DType::kBFloat16}) {
      const Shape shape{.format = format, .visibility = visibility};
      for (const std::int64_t past : {0, 63, 511, 1100}) ASSERT_NO_FATAL_FAILURE(check_batch(shape, {{past, 3}}));
      ASSERT_NO_FATAL_FAILURE(check_batch(shape, {{40, 64}}));
    }
  }
}

TEST(Attention, GroupsHeadSizesSoftcapAndSinkLogits) {
  for (const DType format : kDTypes) {
    for (const std::int64_t group : {1, 3, 8}) {
      ASSERT_NO_FATAL_FAILURE(check_batch({.format = format, .group = group, .softcap = 5}, {{600, 2}}));
      ASSERT_NO_FATAL_FAILURE(check_batch({.format = format, .group = group, .sink_logits = true}, {{600, 2}}));
      ASSERT_NO_FATAL_FAILURE(check_batch(
          {.format = format, .group = group, .visibility = {.window = 5}, .sink_logits = true}, {{70, 20}}));
    }
    for (const auto& [key_dim, value_dim] : {std::pair{1, 1}, {15, 17}, {96, 96}, {128, 64}}) {
      ASSERT_NO_FATAL_FAILURE(
          check_batch({.format = format, .group = 2, .key_dim = key_dim, .value_dim = value_dim}, {{70, 3}}));
    }
  }
}

TEST(Attention, EachQuerySeesAllOfItsSequence) {
  for (const DType format : kDTypes) {
    const Shape shape{.format = format, .group = 2, .sees_all = true};
    for (const std::int64_t n : {1, 63, 64, 65, 511, 512, 513}) ASSERT_NO_FATAL_FAILURE(check_batch(shape, {{0, n}}));
    // One query over a long source: threads share its spans.
    ASSERT_NO_FATAL_FAILURE(check_batch(shape, {{1500, 1}, {10, 1}, {600, 3}}));
  }
}

TEST(Attention, RelativeBias) {
  for (const DType format : kDTypes) {
    for (const bool sees_all : {false, true}) {
      const Shape shape{.format = format, .group = 2, .sees_all = sees_all, .bias_reach = 20};
      ASSERT_NO_FATAL_FAILURE(check_batch(shape, {{0, 100}, {1100, 1}, {63, 2}}));
    }
  }
}

TEST(Attention, RaggedBatches) {
  for (const DType format : kDTypes) {
    ASSERT_NO_FATAL_FAILURE(check_batch({.format = format, .group = 3}, {{0, 5}, {1100, 1}, {63, 2}, {512, 40}}));
  }
}

TEST(Attention, SequencesWithoutNewTokensAreLeftOut) {
  ASSERT_NO_FATAL_FAILURE(check_batch({}, {{0, 1}, {700, 0}, {64, 2}}));
}

// What makes chunked prefill, decoding and every batch agree.
TEST(Attention, ARowsBitsDependOnNothingElse) {
  for (const DType format : kDTypes) {
    for (const Visibility visibility : {Visibility{}, Visibility{.window = 65}, Visibility{.chunk = 70}}) {
      const Shape shape{.format = format, .group = 3, .visibility = visibility};
      Batch batch(shape, {{600, 40}, {10, 30}});
      Workspace workspace(at::kCPU);
      const Matrix all = batch.run(workspace);
      for (const std::int64_t query : {0, 1, 17, 39}) {
        const AttendSequence parts[] = {batch.sequences[0]->part(0, query, 1)};
        Matrix out(1, all.width);
        attend(workspace, parts, batch.options(), batch.q.rows(query, 1), Batch::kOffset, out.rows());
        ASSERT_EQ(bits(out.values), bits(std::vector<float>(all.row(query), all.row(query + 1)))) << query;
      }
    }
  }
}

// Row 0 does not change with the keys and values of the rows after it, whatever the history.
TEST(Attention, IsCausalWithinACall) {
  for (const std::int64_t history : {63, 64, 65, 127, 128, 512}) {
    Batch one({.group = 2}, {{history, 1}}), four({.group = 2}, {{history, 4}});
    // The same numbers come from the same seed, row by row.
    std::copy_n(one.q.row(0), one.q.width, four.q.row(0));
    Workspace workspace(at::kCPU);
    const Matrix a = one.run(workspace), b = four.run(workspace);
    EXPECT_TRUE(std::equal(a.values.begin(), a.values.end(), b.values.begin())) << history;
  }
}

// A prompt's row and the same row in decoding see the same bias.
TEST(Attention, ARowsBitsWithABiasDependOnNothingElse) {
  Batch batch({.group = 3, .bias_reach = 40}, {{600, 40}, {10, 30}});
  Workspace workspace(at::kCPU);
  const Matrix all = batch.run(workspace);
  for (const std::int64_t query : {0, 1, 17, 39}) {
    const AttendSequence parts[] = {batch.sequences[0]->part(0, query, 1)};
    Matrix out(1, all.width);
    attend(workspace, parts, batch.options(), batch.q.rows(query, 1), Batch::kOffset, out.rows());
    ASSERT_EQ(bits(out.values), bits(std::vector<float>(all.row(query), all.row(query + 1)))) << query;
  }
}

TEST(Attention, ASteadyLoopAllocatesNothing) {
  Batch batch({.group = 3}, {{1100, 1}});
  Workspace workspace(at::kCPU);
  batch.run(workspace);
  const std::int64_t before = workspace.n_allocations();
  for (int i = 0; i < 20; ++i) batch.run(workspace);
  EXPECT_EQ(workspace.n_allocations(), before);
}

TEST(Attention, RefusesABiasOfAnotherShape) {
  EXPECT_EQ(reach_of_bias(127), 0);
  EXPECT_EQ(reach_of_bias(2 * 128 + 127), 128);
  for (const std::int64_t n : {0, 1, 125, 126, 128}) {
    EXPECT_THAT(thrown(ErrorKind::kInvalidArgument, [&] { reach_of_bias(n); }),
                ::testing::HasSubstr(std::to_string(n)));
  }
  Batch batch({}, {{0, 1}});
  Workspace workspace(at::kCPU);
  Matrix out(1, 32);
  const AttendSequence parts[] = {batch.sequences[0]->part(0)};
  for (const at::Tensor& bias : {at::zeros({1, 127}), at::zeros({127}), at::zeros({2, 126})}) {
    AttendOptions options = batch.options();
    options.relative_bias = bias;
    thrown(ErrorKind::kInvalidArgument,
           [&] { attend(workspace, parts, options, batch.q.rows(), Batch::kOffset, out.rows()); });
  }
}

TEST(Attention, RefusesHeadsThatDoNotFit) {
  Batch batch({}, {{0, 1}});
  Workspace workspace(at::kCPU);
  Matrix out(1, 32), narrow(1, 31);
  const AttendSequence parts[] = {batch.sequences[0]->part(0)};
  AttendOptions odd = batch.options();
  odd.n_heads = 3;
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument,
                     [&] { attend(workspace, parts, odd, batch.q.rows(), Batch::kOffset, out.rows()); }),
              ::testing::HasSubstr("3 query heads are not a multiple of 2"));
  thrown(ErrorKind::kInvalidArgument,
         [&] { attend(workspace, parts, batch.options(), batch.q.rows(), Batch::kOffset, narrow.rows()); });
  thrown(ErrorKind::kInvalidArgument,
         [&] { attend(workspace, parts, batch.options(), batch.q.rows(), 6, out.rows()); });
}

}  // namespace
}  // namespace mneme::ops
