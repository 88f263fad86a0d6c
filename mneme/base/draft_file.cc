#include "mneme/base/draft_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "mneme/base/error.h"

namespace mneme {

namespace {

/// A file without a name in the folder of `path`, or -1 where the file system has none: a killed process leaves
/// nothing.
int open_nameless(const std::string& path) {
  if (::access("/proc/self/fd", X_OK) != 0) return -1;  // a name is given through it
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == path.npos ? "." : path.substr(0, slash + 1);
  return ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
}

}  // namespace

DraftFile::DraftFile(std::string path) : path_(std::move(path)), fd_(open_nameless(path_)) {
  if (fd_ >= 0) return;
  draft_ = path_ + ".XXXXXX";
  fd_ = ::mkostemp(draft_.data(), O_CLOEXEC);
  if (fd_ < 0) fail("cannot be made");
}

DraftFile::~DraftFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  if (!draft_.empty()) ::unlink(draft_.c_str());
}

void DraftFile::write(std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail("cannot be written");
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

void DraftFile::publish() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  if (::fchmod(fd_, 0666 & ~mask) != 0 || ::fsync(fd_) != 0) fail("cannot be written");
  if (draft_.empty()) {
    draft_ = fmt::format("{}.{}-{}", path_, ::getpid(), fd_);
    ::unlink(draft_.c_str());  // of a process that had this number
    const std::string self = fmt::format("/proc/self/fd/{}", fd_);
    if (::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, draft_.c_str(), AT_SYMLINK_FOLLOW) != 0) {
      draft_.clear();
      fail("cannot be made");
    }
  }
  if (::rename(draft_.c_str(), path_.c_str()) != 0) fail("cannot be made");
  ::close(std::exchange(fd_, -1));
}

void DraftFile::fail(const char* what) const {
  throw Error(ErrorKind::kIo, "{} {}: {}; what was there before is untouched", path_, what, std::strerror(errno));
}

}  // namespace mneme
