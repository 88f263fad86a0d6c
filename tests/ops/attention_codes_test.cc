// ops::attend over spans of which the first blocks are encoded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "mneme/ops/attention.h"
#include "tests/kernels/coded_blocks.h"
#include "tests/support/matrix.h"
#include "tests/support/thrown.h"

namespace mneme::ops {
namespace {

using kernels::AlignedBytes;
using kernels::BlockCodes;
using kernels::Grouping;
using kernels::kSpanBlocks;
using kernels::Visibility;
using testing::bits;
using testing::Matrix;
using testing::Threads;
using testing::thrown;

/// Heads of 32 are multiplied as codes, those of 20 are decoded first.
BlockCodes codes_of(DType format, std::int64_t dim) {
  return {.keys = {.bits = 4, .has_offset = true, .grouping = Grouping::kTokens, .group = 32},
          .values = {.bits = 2, .has_offset = true, .grouping = Grouping::kChannels, .group = 32},
          .raw = {.format = format, .n_heads = 2, .key_dim = dim, .value_dim = dim},
          .sink_length = 4};
}

/// A sequence of 64 n_blocks tokens, each block encoded and as it decodes.
struct Sequence {
  BlockCodes codes;
  std::vector<AlignedBytes> encoded, raw;
  std::vector<const std::byte*> blocks, raw_blocks;
  std::vector<const std::byte*const*> spans, raw_spans;
  std::int64_t n_sealed;

  Sequence(DType format, std::int64_t dim, std::int64_t n_blocks, std::int64_t sealed)
      : codes(codes_of(format, dim)), n_sealed(sealed) {
    for (std::int64_t b = 0; b < n_blocks; ++b) {
      encoded.push_back(kernels::random_block(codes, b == 0, static_cast<unsigned>(b)));
      raw.push_back(kernels::decoded(kernels::active(), codes, encoded.back(), b == 0));
    }
    const std::int64_t padded = kernels::round_up(n_blocks, kSpanBlocks);
    for (std::int64_t b = 0; b < padded; ++b) {
      const auto i = static_cast<std::size_t>(b);
      raw_blocks.push_back(b < n_blocks ? raw[i].data() : nullptr);
      blocks.push_back(b < n_sealed ? encoded[i].data() : raw_blocks.back());
    }
    for (std::int64_t b = 0; b < padded; b += kSpanBlocks) {
      spans.push_back(blocks.data() + b);
      raw_spans.push_back(raw_blocks.data() + b);
    }
  }

  AttendSequence part(bool with_codes, std::int64_t n_queries) const {
    const auto length = static_cast<std::int64_t>(raw.size()) * 64;
    return {.spans = with_codes ? spans : raw_spans,
            .first_query = length - n_queries,
            .n_queries = n_queries,
            .n_sealed = with_codes ? n_sealed : 0};
  }
};

Matrix run(Workspace& workspace, const Sequence& s, bool with_codes, std::int64_t n_queries, Visibility visibility) {
  const AttendSequence parts[] = {s.part(with_codes, n_queries)};
  const std::int64_t width = 6 * s.codes.raw.key_dim;
  Matrix q = Matrix::random(n_queries, width, 5), out(n_queries, width);
  attend(workspace, parts,
         {.layout = s.codes.raw, .codes = &s.codes, .n_heads = 6, .scale = 0.3f, .visibility = visibility}, q.rows(), 0,
         out.rows());
  return out;
}

/// Calls f(sequence, queries, visibility) for sequences of 19 blocks in every format.
template <class F>
void each_case(std::int64_t dim, std::initializer_list<std::int64_t> sealed, F&& f) {
  for (const DType format : testing::kDTypes) {
    for (const std::int64_t n_sealed : sealed) {
      const Sequence s(format, dim, 19, n_sealed);
      for (const std::int64_t n_queries : {1, 70}) {
        for (const Visibility& visibility : {Visibility{}, Visibility{.window = 600}, Visibility{.chunk = 700}}) {
          SCOPED_TRACE(::testing::Message() << name_of(format) << " sealed " << n_sealed << " queries " << n_queries);
          ASSERT_NO_FATAL_FAILURE(f(s, n_queries, visibility));
        }
      }
    }
  }
}

Matrix with_threads(int threads, const Sequence& s, bool with_codes, std::int64_t n_queries, Visibility visibility) {
  const Threads pool(threads);
  Workspace workspace(at::kCPU);
  return run(workspace, s, with_codes, n_queries, visibility);
}

TEST(AttentionCodes, EqualsAttentionOverWhatTheyDecodeTo) {
  each_case(20, {0, 1, 7, 8, 9, 16, 17, 19}, [](const Sequence& s, std::int64_t n_queries, Visibility visibility) {
    const auto expected = bits(with_threads(1, s, false, n_queries, visibility).values);
    for (const int threads : {1, 4})
      ASSERT_EQ(bits(with_threads(threads, s, true, n_queries, visibility).values), expected) << threads << " threads";
  });
}

/// Multiplied codes: the same bits for any number of threads, and near what they decode to.
TEST(AttentionCodes, AreMultipliedTheSameByAnyNumberOfThreads) {
  each_case(32, {1, 8, 17}, [](const Sequence& s, std::int64_t n_queries, Visibility visibility) {
    const Matrix out = with_threads(1, s, true, n_queries, visibility);
    const Matrix decoded = with_threads(1, s, false, n_queries, visibility);
    for (std::size_t i = 0; i < out.values.size(); ++i) ASSERT_NEAR(out.values[i], decoded.values[i], 0.1);
    ASSERT_EQ(bits(with_threads(4, s, true, n_queries, visibility).values), bits(out.values));
  });
}

TEST(AttentionCodes, ThroughAtenToo) {
  for (const auto& [format, tolerance] :
       {std::pair{DType::kFloat32, 2e-5}, {DType::kBFloat16, 2e-2}, {DType::kFloat16, 2e-3}}) {
    const Sequence s(format, 20, 4, 2);
    Workspace workspace(at::kCPU), through_aten(at::kCPU);
    through_aten.set_through_aten(true);
    const Matrix expected = run(workspace, s, true, 3, {}), out = run(through_aten, s, true, 3, {});
    for (std::size_t i = 0; i < out.values.size(); ++i) ASSERT_NEAR(out.values[i], expected.values[i], tolerance);
  }
}

TEST(AttentionCodes, RefusesEncodedBlocksWithoutTheirCodes) {
  const Sequence s(DType::kFloat32, 20, 4, 2);
  Workspace workspace(at::kCPU);
  const AttendSequence parts[] = {s.part(true, 1)};
  Matrix q = Matrix::random(1, 6 * 20, 5), out(1, 6 * 20);
  const BlockCodes others = codes_of(DType::kFloat16, 20);
  for (const BlockCodes* codes : {static_cast<const BlockCodes*>(nullptr), &others}) {
    EXPECT_THAT(thrown(ErrorKind::kInvalidArgument,
                       [&] {
                         attend(workspace, parts, {.layout = s.codes.raw, .codes = codes, .n_heads = 6}, q.rows(), 0,
                                out.rows());
                       }),
                ::testing::HasSubstr("2 blocks are encoded"));
  }
}

}  // namespace
}  // namespace mneme::ops
