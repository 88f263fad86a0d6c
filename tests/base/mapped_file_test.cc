#include "mneme/base/mapped_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "mneme/base/error.h"

namespace mneme {
namespace {

namespace fs = std::filesystem;

class MappedFileTest : public testing::Test {
 protected:
  MappedFileTest() {
    std::string pattern = testing::TempDir() + "mapped_file_XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~MappedFileTest() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& content) const {
    const std::string path = folder_ / name;
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

  static void expect_io_error(const std::string& path, const std::string& reason) {
    try {
      const MappedFile file(path);
      ADD_FAILURE() << path << " was mapped";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kIo);
      EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr(path), testing::HasSubstr(reason)));
    }
  }

  fs::path folder_;
};

TEST_F(MappedFileTest, ShowsEveryByte) {
  std::string content("a\0b\xff\n", 5);
  content += std::string(10000, 'x');
  const MappedFile file(write("bytes", content));
  EXPECT_EQ(file.size(), content.size());
  EXPECT_EQ(file.text(), content);
  EXPECT_EQ(file.bytes().size(), content.size());
  EXPECT_EQ(file.bytes()[3], std::byte{0xff});
}

TEST_F(MappedFileTest, AnEmptyFileIsAnEmptySpan) {
  const MappedFile file(write("empty", ""));
  EXPECT_EQ(file.size(), 0u);
  EXPECT_TRUE(file.bytes().empty());
  EXPECT_EQ(file.text(), "");
}

TEST_F(MappedFileTest, OutlivesTheNameOfTheFile) {
  const std::string path = write("removed", "still here");
  const MappedFile file(path);
  fs::remove(path);
  EXPECT_EQ(file.text(), "still here");
}

TEST_F(MappedFileTest, MovingHandsTheMapOver) {
  MappedFile first(write("first", "one"));
  const std::byte* data = first.bytes().data();
  MappedFile moved(std::move(first));
  EXPECT_EQ(moved.bytes().data(), data);
  MappedFile second(write("second", "two"));
  second = std::move(moved);
  EXPECT_EQ(second.text(), "one");
  EXPECT_EQ(second.bytes().data(), data);
}

TEST_F(MappedFileTest, ClosesItsDescriptor) {
  const auto count = [] { return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()); };
  const std::string path = write("file", "x");
  const auto before = count();
  const MappedFile file(path);
  EXPECT_EQ(count(), before);
}

TEST_F(MappedFileTest, DroppedPagesAreReadAgain) {
  const std::string path = write("file", std::string(1 << 20, 'x'));
  const auto resident = [](const MappedFile& file) {
    std::ifstream maps("/proc/self/smaps");
    const auto address = fmt::format("{:x}-", reinterpret_cast<std::uintptr_t>(file.bytes().data()));
    for (std::string line; std::getline(maps, line);) {
      if (!line.starts_with(address)) continue;
      while (std::getline(maps, line) && !line.starts_with("Rss:")) {
      }
      return std::stoi(line.substr(4));
    }
    return -1;
  };
  MappedFile file(path);
  EXPECT_EQ(std::ranges::count(file.text(), 'x'), 1 << 20);
  EXPECT_EQ(resident(file), 1024);
  file.drop_pages();
  EXPECT_EQ(resident(file), 0);
  EXPECT_EQ(std::ranges::count(file.text(), 'x'), 1 << 20);
}

TEST_F(MappedFileTest, PrivatePagesAreKept) {
  const MappedFile file(write("file", "abc"), MappedFile::Access::kPrivate);
  const_cast<std::byte&>(file.bytes()[1]) = std::byte{'z'};
  file.drop_pages();
  EXPECT_EQ(file.text(), "azc");
}

TEST_F(MappedFileTest, RefusesAMissingFile) { expect_io_error(folder_ / "missing", "No such file"); }

TEST_F(MappedFileTest, RefusesAFolder) { expect_io_error(folder_, "not a regular file"); }

TEST_F(MappedFileTest, RefusesADeviceAndAPipeWithoutWaiting) {
  expect_io_error("/dev/null", "not a regular file");
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  expect_io_error(pipe, "not a regular file");
}

TEST_F(MappedFileTest, RefusesWhatMayNotBeRead) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
  const std::string path = write("secret", "x");
  fs::permissions(path, fs::perms::none);
  expect_io_error(path, "Permission denied");
}

}  // namespace
}  // namespace mneme
