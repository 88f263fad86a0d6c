#include "mneme/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "mneme/base/error.h"

namespace mneme {

MappedFile::MappedFile(const std::string& path, Access access) : access_(access) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // opening a pipe must not wait for a writer
  check(fd >= 0, ErrorKind::kIo, "cannot open {}: {}", path, std::strerror(errno));
  struct Closer {
    int fd;
    ~Closer() { ::close(fd); }
  } closer{fd};
  struct stat info {};
  check(::fstat(fd, &info) == 0, ErrorKind::kIo, "cannot read {}: {}", path, std::strerror(errno));
  check(S_ISREG(info.st_mode), ErrorKind::kIo, "{} is not a regular file", path);
  size_ = static_cast<std::size_t>(info.st_size);
  if (size_ == 0) return;
  const int protection = access == Access::kPrivate ? PROT_READ | PROT_WRITE : PROT_READ;
  void* address = ::mmap(nullptr, size_, protection, MAP_PRIVATE, fd, 0);
  check(address != MAP_FAILED, ErrorKind::kIo, "cannot map {} ({} bytes): {}", path, size_, std::strerror(errno));
  data_ = static_cast<const std::byte*>(address);
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::drop_pages() const noexcept {
  if (data_ && access_ == Access::kReadOnly) ::madvise(const_cast<std::byte*>(data_), size_, MADV_DONTNEED);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : access_(other.access_), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(access_, other.access_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace mneme
