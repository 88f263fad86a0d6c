#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace mneme {

/// A file that is written beside `path` and takes its place when it is whole, so that whoever looks at `path` sees all
/// of it or what was there before. Destroyed or killed before that, it leaves nothing behind (a killed process leaves
/// `path`.XXXXXX on file systems without O_TMPFILE).
class DraftFile {
 public:
  /// Throws Error(kIo) with the reason, as the others do.
  explicit DraftFile(std::string path);
  ~DraftFile();
  DraftFile(const DraftFile&) = delete;
  DraftFile& operator=(const DraftFile&) = delete;

  void write(std::span<const std::byte> bytes) const;
  void write(std::string_view text) const { write(std::as_bytes(std::span(text))); }

  /// Brings everything to the disk and renames.
  void publish();

 private:
  [[noreturn]] void fail(const char* what) const;

  const std::string path_;
  std::string draft_;  // its name, once it has one
  int fd_ = -1;
};

}  // namespace mneme
