#include "mneme/kernels/coded_panel.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/coded_weights.h"

namespace mneme::kernels {
namespace {

using testing::CodedMatrix;
using testing::kCodedFormats;

class CodedPanel : public ::testing::TestWithParam<WeightFormat> {};

TEST_P(CodedPanel, HoldsWhatTheFileHolds) {
  const CodedMatrix matrix(GetParam(), 16, 512);
  std::vector<std::byte> panel(static_cast<std::size_t>(panel_bytes(GetParam(), 512)), std::byte{0xff});
  pack_coded_panel(GetParam(), matrix.blocks.data(), matrix.row_bytes, 16, 512, panel.data());
  std::vector<float> rows(16 * 512);
  decode_coded_panels(GetParam(), panel.data(), 16, 512, rows.data());
  EXPECT_EQ(rows, matrix.numbers);
}

TEST_P(CodedPanel, RowsThatAreNotThereAreZeros) {
  const CodedMatrix matrix(GetParam(), 5, 256);
  std::vector<std::byte> panel(static_cast<std::size_t>(panel_bytes(GetParam(), 256)), std::byte{0xff});
  pack_coded_panel(GetParam(), matrix.blocks.data(), matrix.row_bytes, 5, 256, panel.data());
  std::vector<float> rows(16 * 256);
  decode_coded_panels(GetParam(), panel.data(), 16, 256, rows.data());
  const auto border = rows.begin() + 5 * 256;
  EXPECT_TRUE(std::equal(rows.begin(), border, matrix.numbers.begin()));
  for (auto it = border; it != rows.end(); ++it) ASSERT_EQ(*it, 0.0f);
}

/// What a step of decoding reads: at most an eighth of a bit a weight more than the file has.
TEST_P(CodedPanel, IsAsSmallAsTheFile) {
  const CodedFormat layout = coded_format(GetParam());
  const double file_bits = 8.0 * layout.block_bytes / layout.block_elements();
  EXPECT_LE(8.0 * static_cast<double>(panel_bytes(GetParam(), 512)) / (16 * 512), file_bits + 0.126);
}

INSTANTIATE_TEST_SUITE_P(All, CodedPanel, ::testing::ValuesIn(kCodedFormats),
                         [](const auto& param) { return std::string(name_of(param.param)); });

}  // namespace
}  // namespace mneme::kernels
