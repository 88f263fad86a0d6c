#include "mneme/models/stored_tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "mneme/base/error.h"
#include "mneme/base/gguf_file.h"
#include "mneme/base/safetensors.h"
#include "tests/support/files.h"
#include "tests/support/places.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<float> all_of(const StoredTensor& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.rows() * tensor.columns()));
  read_rows(tensor, 0, tensor.rows(), values.data());
  return values;
}

/// Equal bits; any NaN equals any other.
void expect_same(const std::vector<float>& got, const std::vector<float>& want, const std::string& name) {
  ASSERT_EQ(got.size(), want.size()) << name;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(want[i])) {
      EXPECT_TRUE(std::isnan(got[i])) << name << " " << i;
    } else {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(want[i])) << name << " " << i;
    }
  }
}

/// One tensor of each storage from the files that Python wrote, and what Python decodes it to.
class Formats : public ::testing::Test {
 protected:
  const GgufFile gguf{testing::test_data("files/formats.gguf")};
  const SafetensorsFile safetensors{testing::test_data("files/formats.safetensors")};
  const SafetensorsFile expected{testing::test_data("files/formats_expected.safetensors")};

  std::vector<float> expectation(const std::string& name) const {
    for (const auto& tensor : expected.tensors()) {
      if (tensor.name == name)
        return all_of({.name = name, .shape = tensor.shape, .data = tensor.data, .row_order = {}});
    }
    ADD_FAILURE() << name;
    return {};
  }
};

TEST_F(Formats, OfGgufDecodeAsInPython) {
  const std::map<std::string, Storage> storages = {
      {"f32", Storage::kFloat32}, {"f16", Storage::kFloat16}, {"bf16", Storage::kBFloat16}, {"q4_0", Storage::kQ4_0},
      {"q4_1", Storage::kQ4_1},   {"q5_0", Storage::kQ5_0},   {"q5_1", Storage::kQ5_1},     {"q8_0", Storage::kQ8_0},
      {"q4_k", Storage::kQ4_K},   {"q5_k", Storage::kQ5_K},   {"q6_k", Storage::kQ6_K}};
  int n_compared = 0;
  for (const auto& tensor : gguf.tensors()) {
    const auto it = storages.find(tensor.name);
    if (it == storages.end()) continue;
    const StoredTensor stored{
        .name = tensor.name, .storage = it->second, .shape = tensor.shape, .data = tensor.data, .row_order = {}};
    expect_same(all_of(stored), expectation("gguf." + tensor.name), tensor.name);
    ++n_compared;
  }
  EXPECT_EQ(n_compared, 11);
}

TEST_F(Formats, OfSafetensorsDecodeAsInPython) {
  const std::map<std::string, Storage> storages = {{"f32", Storage::kFloat32},
                                                   {"f16", Storage::kFloat16},
                                                   {"bf16", Storage::kBFloat16},
                                                   {"e4m3", Storage::kFloat8E4M3},
                                                   {"e5m2", Storage::kFloat8E5M2}};
  int n_compared = 0;
  for (const auto& tensor : safetensors.tensors()) {
    const auto it = storages.find(tensor.name);
    if (it == storages.end()) continue;
    const StoredTensor stored{
        .name = tensor.name, .storage = it->second, .shape = tensor.shape, .data = tensor.data, .row_order = {}};
    expect_same(all_of(stored), expectation("safetensors." + tensor.name), tensor.name);
    ++n_compared;
  }
  EXPECT_EQ(n_compared, 5);
}

TEST_F(Formats, ReadAnyRowsAtAnyAlignment) {
  for (const auto& tensor : gguf.tensors()) {
    if (tensor.name != "q4_1") continue;
    std::string shifted(tensor.data.size() + 1, '\0');
    std::copy(tensor.data.begin(), tensor.data.end(), reinterpret_cast<std::byte*>(shifted.data() + 1));
    const StoredTensor stored{.name = "q",
                              .storage = Storage::kQ4_1,
                              .shape = tensor.shape,
                              .data = testing::bytes_of(shifted).subspan(1),
                              .row_order = {}};
    const std::vector<float> all = all_of(stored);
    for (std::int64_t first = 0; first <= 3; ++first) {
      for (std::int64_t n = 0; first + n <= 3; ++n) {
        std::vector<float> rows(static_cast<std::size_t>(n * 96));
        read_rows(stored, first, n, rows.data());
        expect_same(rows, {all.begin() + first * 96, all.begin() + (first + n) * 96}, "rows");
      }
    }
    return;
  }
  FAIL();
}

const std::vector<float> kSix = {0, 1, 2, 3, 4, 5};

StoredTensor six(std::vector<std::int64_t> shape, std::vector<std::int32_t> row_order = {}) {
  return {.name = "six",
          .shape = std::move(shape),
          .data = std::as_bytes(std::span(kSix)),
          .row_order = std::move(row_order)};
}

TEST(StoredTensor, RowsAreAllSizesButTheLast) {
  EXPECT_EQ(six({3, 2}).rows(), 3);
  EXPECT_EQ(six({3, 1, 2}).rows(), 3);
  EXPECT_EQ(six({6}).rows(), 1);
  EXPECT_EQ(six({6}).columns(), 6);
  EXPECT_EQ(six({}).rows() * six({}).columns(), 1);
}

TEST(StoredTensor, RowsCanLieInAnotherOrder) {
  EXPECT_THAT(all_of(six({3, 2}, {2, 0, 1})), ElementsAre(4, 5, 0, 1, 2, 3));
  std::vector<float> row(2);
  read_rows(six({3, 2}, {2, 0, 1}), 1, 1, row.data());
  EXPECT_THAT(row, ElementsAre(0, 1));
  EXPECT_THAT(all_of(six({6}, {5, 4, 3, 2, 1, 0})), ElementsAre(5, 4, 3, 2, 1, 0));
}

TEST(StoredTensor, AScaleMultipliesEveryElement) {
  StoredTensor tensor = six({3, 2});
  tensor.scale = 0.5f;
  EXPECT_THAT(all_of(tensor), ElementsAre(0, 0.5f, 1, 1.5f, 2, 2.5f));
}

TEST(StoredTensor, RefusesRowsThatAreNotThere) {
  float out[8];
  for (const auto& [first, n] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {-1, 1}, {0, 4}, {3, 1}, {4, 0}, {0, -1}, {1, INT64_MAX}, {INT64_MAX, 1}}) {
    EXPECT_THAT(testing::thrown(ErrorKind::kOutOfRange,
                                [&] {
                                  read_rows(six({3, 2}), first, n, out);
                                }),
                HasSubstr("there are 3"));
  }
  EXPECT_NO_THROW(read_rows(six({3, 2}), 3, 0, out));
}

}  // namespace
}  // namespace mneme
