#include "mneme/base/safetensors_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "mneme/base/safetensors.h"
#include "tests/support/files.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::HasSubstr;
using testing::TempFolder;
using testing::thrown;

TEST(SafetensorsWriter, WritesWhatTheReaderReads) {
  const TempFolder folder;
  const std::vector<float> a = {1, 2, 3}, b = {4, 5, 6};
  SafetensorsWriter writer;
  writer.set("kind", "a \"test\"");
  writer.add("pieces", "F32", {2, 3}, {std::as_bytes(std::span(a)), std::as_bytes(std::span(b))});
  writer.add("nothing", "U8", {0, 4}, {});
  writer.write(folder.path() + "/x.safetensors");
  const SafetensorsFile file(folder.path() + "/x.safetensors");
  EXPECT_EQ(file.metadata().at("kind"), "a \"test\"");
  ASSERT_EQ(file.tensors().size(), 2u);
  for (const SafetensorsFile::Tensor& tensor : file.tensors()) {
    if (tensor.name == "nothing") {
      EXPECT_EQ(tensor.shape, (std::vector<std::int64_t>{0, 4}));
      continue;
    }
    EXPECT_EQ(tensor.name, "pieces");
    EXPECT_EQ(tensor.dtype, "F32");
    EXPECT_EQ(tensor.shape, (std::vector<std::int64_t>{2, 3}));
    const auto* values = reinterpret_cast<const float*>(tensor.data.data());
    EXPECT_EQ(std::vector<float>(values, values + 6), (std::vector<float>{1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(values) % 64, 0u);
  }
}

TEST(SafetensorsWriter, MakesRowsAsTheyAreWritten) {
  const TempFolder folder;
  const std::string path = folder.path() + "/x";
  SafetensorsWriter writer;
  const std::vector<float> before = {1, 2, 3};
  writer.add("before", "F32", {3}, {std::as_bytes(std::span(before))});
  writer.add_rows("rows", 3, 5, [](std::int64_t i, std::span<std::byte> row) {
    std::ranges::fill(row, static_cast<std::byte>(10 + i));
  });
  writer.add_rows("none", 0, 5, [](std::int64_t, std::span<std::byte>) { ADD_FAILURE(); });
  writer.write(path);
  const SafetensorsFile file(path);
  for (const SafetensorsFile::Tensor& tensor : file.tensors()) {
    if (tensor.name != "rows") continue;
    EXPECT_EQ(tensor.shape, (std::vector<std::int64_t>{3, 5}));
    EXPECT_EQ(tensor.data[4], std::byte{10});
    EXPECT_EQ(tensor.data[5], std::byte{11});
    EXPECT_EQ(tensor.data[14], std::byte{12});
  }
  writer.add_rows("broken", 1, 5, [](std::int64_t, std::span<std::byte>) { throw Error(ErrorKind::kIo, "no row"); });
  EXPECT_THAT(thrown(ErrorKind::kIo, [&] { writer.write(path); }), HasSubstr("no row"));
  EXPECT_EQ(SafetensorsFile(path).tensors().size(), 3u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(SafetensorsWriter, ReplacesAFileAsAWhole) {
  const TempFolder folder;
  const std::string path = folder.write("x", "before");
  SafetensorsWriter writer;
  writer.write(path);
  EXPECT_TRUE(SafetensorsFile(path).tensors().empty());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

// A limit on file sizes stands in for a full disk.
TEST(SafetensorsWriter, AFailureLeavesWhatWasThere) {
  const TempFolder folder;
  const std::string path = folder.write("x", "before");
  const std::vector<std::byte> much(1 << 20);
  SafetensorsWriter writer;
  writer.add("much", "U8", {1 << 20}, {much});
  struct rlimit before {};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit limit { .rlim_cur = 1 << 16, .rlim_max = before.rlim_max };
  ::setrlimit(RLIMIT_FSIZE, &limit);
  const std::string message = thrown(ErrorKind::kIo, [&] { writer.write(path); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(message, HasSubstr(path));
  EXPECT_EQ(testing::read_file(path), "before");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
  EXPECT_THAT(thrown(ErrorKind::kIo, [&] { writer.write(folder.path() + "/no/x"); }), HasSubstr("No such file"));
}

}  // namespace
}  // namespace mneme
