#include "mneme/models/loading.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "mneme/base/ggml_block.h"
#include "mneme/base/gguf_file.h"
#include "mneme/base/log.h"
#include "tests/support/matrix.h"
#include "tests/support/places.h"
#include "tests/support/random_model.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using testing::bits;
using testing::Checkpoint;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Matrix;
using testing::TempFolder;
using testing::thrown;

/// Warnings while this lives.
class Warnings {
 public:
  Warnings() {
    set_warning_handler([this](const std::string& message) { messages.push_back(message); });
  }
  ~Warnings() { set_warning_handler({}); }
  std::vector<std::string> messages;
};

/// y = W x of a layer, by the layer itself.
Matrix apply(const ops::Linear& linear, Matrix x) {
  ops::Workspace workspace(at::kCPU);
  Matrix y(x.n, linear.out_features());
  linear.forward(workspace, x.rows(), y.rows());
  return y;
}

TEST(LoadLinear, PartsLieOneAfterTheOther) {
  Checkpoint checkpoint;
  checkpoint.config = {{"model_type", "llama"}};
  for (const auto& [name, n] : {std::pair{"a", 20}, {"b", 3}, {"c", 41}}) {
    checkpoint.add(std::string(name) + ".weight", {n, 32});
    checkpoint.add(std::string(name) + ".bias", {n});
  }
  const TempFolder folder;
  const Weights weights = Weights::open(checkpoint.write(folder));
  const Matrix x = Matrix::random(3, 32, 1);
  for (const bool bias : {false, true}) {
    const auto load = [&](const std::vector<LinearPart>& parts) {
      return load_linear(weights, parts, 32, bias, DType::kFloat32, at::kCPU);
    };
    const Matrix fused = apply(load({{"a", 20}, {"b", 3}, {"c", 41}}), x);
    const Matrix a = apply(load({{"a", 20}}), x), b = apply(load({{"b", 3}}), x), c = apply(load({{"c", 41}}), x);
    ASSERT_EQ(fused.width, 64);
    for (std::int64_t i = 0; i < 3; ++i) {
      std::vector<float> expected(a.row(i), a.row(i + 1));
      expected.insert(expected.end(), b.row(i), b.row(i + 1));
      expected.insert(expected.end(), c.row(i), c.row(i + 1));
      EXPECT_EQ(bits({fused.row(i), fused.row(i + 1)}), bits(expected));
    }
  }
  EXPECT_THAT(weights.unused(), IsEmpty());
}

// The same matrix, whichever way it is stored.
TEST(WeightRows, RowsArePickedJoinedAndTransposed) {
  Checkpoint checkpoint;
  checkpoint.config = {{"model_type", "llama"}};
  checkpoint.add("stack", {3, 4, 5});
  const TempFolder folder;
  const Weights weights = Weights::open(checkpoint.write(folder));
  const std::vector<float>& stored = checkpoint.tensors["stack"].values;
  const StoredTensor& stack = weights.get("stack", {3, 4, 5});
  const auto all = [](const WeightRows& rows) {
    std::vector<float> values(static_cast<std::size_t>(rows.n * rows.columns));
    for (std::int64_t r = 0; r < rows.n; r += 2) {  // in pieces, as layers read them
      rows.read(r, std::min<std::int64_t>(2, rows.n - r), values.data() + r * rows.columns);
    }
    return values;
  };
  const auto slice = [&](std::int64_t first, std::int64_t n) {
    return std::vector<float>(stored.begin() + 5 * first, stored.begin() + 5 * (first + n));
  };
  EXPECT_EQ(all(rows_of(stack)), stored);
  EXPECT_EQ(all(rows_of(stack, 3, 7)), slice(3, 7));
  EXPECT_EQ(all(joined({rows_of(stack, 8, 3), rows_of(stack, 0, 8)}))[0], stored[40]);
  EXPECT_EQ(all(joined({rows_of(stack, 0, 3), rows_of(stack, 3, 9)})), stored);
  const std::vector<float> swapped = all(picked(rows_of(stack, 4, 3), {2, 0, 1}));
  EXPECT_EQ(std::vector<float>(swapped.begin(), swapped.begin() + 5), slice(6, 1));
  const WeightRows turned = transposed(stack, 4, 4);
  ASSERT_EQ(turned.n, 5);
  ASSERT_EQ(turned.columns, 4);
  const std::vector<float> values = all(turned);
  for (std::size_t i = 0; i < 5; ++i) {
    for (std::size_t j = 0; j < 4; ++j) EXPECT_EQ(values[i * 4 + j], stored[(4 + j) * 5 + i]);
  }
}

TEST(LoadLinear, NamesWhatIsMissingOrMisshapen) {
  const TempFolder folder;
  Checkpoint checkpoint = testing::random_checkpoint();
  const Weights weights = Weights::open(checkpoint.write(folder));
  const std::string o = "model.layers.0.self_attn.o_proj";
  EXPECT_THAT(thrown(ErrorKind::kCorruptData,
                     [&] {
                       load_linear(weights, {{"model.nothing", 64}}, 64, false, DType::kFloat32, at::kCPU);
                     }),
              HasSubstr("model.nothing.weight is missing"));
  EXPECT_THAT(thrown(ErrorKind::kCorruptData,
                     [&] {
                       load_linear(weights, {{o, 64}}, 64, true, DType::kFloat32, at::kCPU);
                     }),
              HasSubstr(o + ".bias is missing"));
  EXPECT_THAT(thrown(ErrorKind::kCorruptData,
                     [&] {
                       load_linear(weights, {{o, 63}}, 64, false, DType::kFloat32, at::kCPU);
                     }),
              HasSubstr(o + ".weight has shape [64, 64], the configuration asks for [63, 64]"));
}

TEST(LoadVector, IsRoundedToTheDtype) {
  Checkpoint checkpoint;
  checkpoint.config = {{"model_type", "llama"}};
  checkpoint.add("v", {50});
  const TempFolder folder;
  const Weights weights = Weights::open(checkpoint.write(folder));
  for (const DType dtype : testing::kDTypes) {
    const at::Tensor v = load_vector(weights, "v", 50, dtype, at::kCPU);
    ASSERT_EQ(v.scalar_type(), at::kFloat);
    for (std::int64_t i = 0; i < 50; ++i) {
      EXPECT_EQ(v[i].item<float>(),
                testing::rounded(dtype, checkpoint.tensors["v"].values[static_cast<std::size_t>(i)]));
    }
  }
  thrown(ErrorKind::kCorruptData, [&] { load_vector(weights, "v", 49, DType::kFloat32, at::kCPU); });
}

// The four combinations of a tied config and a head in the file, and a head that differs.
class LoadHead : public ::testing::Test {
 protected:
  LoadHead() {
    checkpoint_.config = {{"model_type", "llama"}};
    checkpoint_.add("embed", {40, 32});
    head_ = checkpoint_.tensors["embed"];
  }

  Matrix head(bool tied) {
    const Weights weights = Weights::open(checkpoint_.write(folder_));
    const StoredTensor& embedding = weights.get("embed", {40, 32});
    const Matrix y = apply(load_head(weights, embedding, "head", tied, DType::kFloat32, at::kCPU), x_);
    EXPECT_THAT(weights.unused(), IsEmpty());
    return y;
  }
  /// What a head of these weights gives.
  Matrix expected(const Checkpoint::Tensor& t) const {
    const ops::Linear linear(40, 32, DType::kFloat32, at::kCPU, [&](std::int64_t first, std::int64_t n, float* out) {
      std::copy_n(t.values.data() + 32 * first, 32 * n, out);
    });
    return apply(linear, x_);
  }

  Checkpoint checkpoint_;
  Checkpoint::Tensor head_;
  TempFolder folder_;
  Matrix x_ = Matrix::random(2, 32, 9);
  Warnings warnings_;
};

TEST_F(LoadHead, TiedAndAbsentIsShared) {
  EXPECT_EQ(bits(head(true).values), bits(expected(checkpoint_.tensors["embed"]).values));
  EXPECT_THAT(warnings_.messages, IsEmpty());
}

TEST_F(LoadHead, TiedAndEqualIsFine) {
  checkpoint_.tensors["head"] = head_;
  EXPECT_EQ(bits(head(true).values), bits(expected(head_).values));
  EXPECT_THAT(warnings_.messages, IsEmpty());
}

TEST_F(LoadHead, TiedAndDifferentTakesTheEmbeddingAndWarns) {
  checkpoint_.tensors["head"] = head_;
  checkpoint_.tensors["head"].values[77] += 1;
  EXPECT_EQ(bits(head(true).values), bits(expected(head_).values));
  EXPECT_THAT(warnings_.messages, ElementsAre(HasSubstr("head differs from embed")));
}

TEST_F(LoadHead, UntiedTakesTheHead) {
  checkpoint_.tensors["head"] = head_;
  checkpoint_.tensors["head"].values[77] += 1;
  EXPECT_EQ(bits(head(false).values), bits(expected(checkpoint_.tensors["head"]).values));
  EXPECT_THAT(warnings_.messages, IsEmpty());
}

TEST_F(LoadHead, UntiedAndAbsentIsAnError) {
  EXPECT_THAT(thrown(ErrorKind::kCorruptData, [&] { head(false); }), HasSubstr("head is missing"));
}

/// Integers as the blocks of a file: what every row's blocks decode to.
std::vector<float> decoded(const WeightRows& rows) {
  std::vector<float> values;
  for (const ops::CodedRows& part : rows.coded) {
    const CodedFormat layout = coded_format(part.format);
    std::vector<std::byte> row(static_cast<std::size_t>(layout.row_bytes(rows.columns)));
    for (std::int64_t r = 0; r < part.n; ++r) {
      part.read(r, 1, row.data());
      values.resize(values.size() + static_cast<std::size_t>(rows.columns));
      decode(part.format, row.data(), rows.columns, values.data() + std::ssize(values) - rows.columns);
    }
  }
  return values;
}

std::vector<float> numbers(const WeightRows& rows) {
  std::vector<float> values(static_cast<std::size_t>(rows.n * rows.columns));
  rows.read(0, rows.n, values.data());
  return values;
}

/// The tensors of formats.gguf, to be computed with as integers.
class StoredIntegers : public ::testing::Test {
 protected:
  const GgufFile file{testing::test_data("files/formats.gguf")};

  StoredTensor tensor(const std::string& name, Storage storage, LinearAs linear_as = LinearAs::kStored) const {
    for (const auto& t : file.tensors()) {
      if (t.name == name) {
        return {.name = name,
                .storage = storage,
                .shape = t.shape,
                .data = t.data,
                .row_order = {},
                .linear_as = linear_as};
      }
    }
    ADD_FAILURE() << name;
    return {};
  }
};

TEST_F(StoredIntegers, RowsArePickedAndJoinedAsNumbersAre) {
  StoredTensor q4 = tensor("q4_1", Storage::kQ4_1), q8 = tensor("q8_0", Storage::kQ8_0);
  q4.row_order = {2, 0, 1};
  EXPECT_EQ(bits(decoded(rows_of(q4))), bits(numbers(rows_of(q4))));
  EXPECT_EQ(bits(decoded(rows_of(q4, 1, 2))), bits(numbers(rows_of(q4, 1, 2))));
  const WeightRows some = picked(rows_of(q4), {2, 2, 0});
  EXPECT_EQ(bits(decoded(some)), bits(numbers(some)));
  const WeightRows mixed = joined({rows_of(q4), some, rows_of(q8)});
  ASSERT_EQ(mixed.coded.size(), 2u);  // neighbours of one format are one
  EXPECT_EQ(mixed.coded[0].n, 6);
  EXPECT_EQ(bits(decoded(mixed)), bits(numbers(mixed)));
}

TEST_F(StoredIntegers, AreNumbersWhereTheyHaveToBe) {
  const StoredTensor q4 = tensor("q4_1", Storage::kQ4_1), f32 = tensor("f32", Storage::kFloat32),
                     as_numbers = tensor("q4_1", Storage::kQ4_1, LinearAs::kNumbers);
  EXPECT_THAT(rows_of(f32).coded, IsEmpty());
  EXPECT_THAT(rows_of(as_numbers).coded, IsEmpty());
  EXPECT_THAT(joined({rows_of(q4), rows_of(as_numbers)}).coded, IsEmpty());
  EXPECT_THAT(transposed(q4, 0, 3).coded, IsEmpty());
}

/// Half a step of the largest of 32, and what float16 rounds off its 127th part.
TEST_F(StoredIntegers, Int8IsTheNearestOfAnything) {
  const StoredTensor q4 = tensor("q4_1", Storage::kQ4_1, LinearAs::kInt8);
  const WeightRows rows = rows_of(q4);
  ASSERT_EQ(rows.coded.size(), 1u);
  EXPECT_EQ(rows.coded.front().format, WeightFormat::kQ8_0);
  const std::vector<float> want = numbers(rows), got = decoded(rows);
  for (std::size_t i = 0; i < want.size(); i += 32) {
    float largest = 0;
    for (std::size_t j = i; j < i + 32; ++j) largest = std::max(largest, std::fabs(want[j]));
    for (std::size_t j = i; j < i + 32; ++j)
      ASSERT_NEAR(got[j], want[j], largest * (0.5f / 127 + 0x1p-11f) + 0x1p-24f * 128);
  }
  EXPECT_THAT(rows_of(tensor("f32", Storage::kFloat32, LinearAs::kInt8)).coded, IsEmpty());  // 5 columns are no block
}

}  // namespace
}  // namespace mneme
