#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace mneme {

/// A memory map of a whole file. Opening costs no reading; pages come in when touched.
/// Truncating the file while it is mapped is the caller's risk, as with any map (SIGBUS).
class MappedFile {
 public:
  /// What is written into a private map is seen through that map alone; the file stays as it is.
  enum class Access { kReadOnly, kPrivate };

  /// Throws Error(kIo) if the path is missing, not a regular file, or cannot be mapped. An empty file is an empty span.
  explicit MappedFile(const std::string& path, Access access = Access::kReadOnly);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }
  std::string_view text() const noexcept { return {reinterpret_cast<const char*>(data_), size_}; }
  std::size_t size() const noexcept { return size_; }

  /// Gives back the memory of what was read so far: it is read again where it is touched. Costs a system call, and
  /// then a page fault for each page that is still needed. Private maps, which may hold what no file has, ignore it.
  void drop_pages() const noexcept;

 private:
  Access access_ = Access::kReadOnly;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace mneme
