#include "mneme/cache/disk_tier.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <vector>

#include "mneme/base/error.h"

#ifndef MADV_POPULATE_READ  // Linux 5.14; older headers lack the name
#define MADV_POPULATE_READ 22
#endif

namespace mneme {
namespace {

std::size_t page_size() {
  static const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

/// A file that has no name, or loses it at once.
int open_unnamed(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return fd;
  std::string path = folder + "/mneme-XXXXXX";  // a file system without O_TMPFILE
  const int named = ::mkostemp(path.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(path.c_str());
  return named;
}

/// madvise for all pages that a range touches.
int advise(const ByteRange& range, int advice) {
  const auto address = reinterpret_cast<std::uintptr_t>(range.data);
  const std::uintptr_t begin = address / page_size() * page_size(),
                       end = address + static_cast<std::size_t>(range.n_bytes);
  return ::madvise(reinterpret_cast<void*>(begin), end - begin, advice);
}

/// How often this thread has waited for a page from a disk.
long n_waits_for_disk() {
  struct rusage usage {};
  ::getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_majflt;
}

}  // namespace

/// The file and where its pieces are mapped. Pieces keep it alive.
struct DiskTier::File {
  static constexpr std::int64_t kJoined = std::int64_t{1} << 20;

  int fd = -1;
  std::mutex mutex;
  std::int64_t size = 0;
  struct Piece {
    std::int64_t n_bytes, offset;
  };
  std::map<const std::byte*, Piece> pieces;  // by address
  std::atomic<int> n_advices = 0;            // prefetches that are worth a call
  std::vector<bool> joined;                  // by kJoined bytes of the file

  ~File() {
    if (fd >= 0) ::close(fd);
  }

  std::int64_t offset_of(const std::byte* data) {
    const std::lock_guard lock(mutex);
    const auto piece = std::prev(pieces.upper_bound(data));
    return piece->second.offset + (data - piece->first);
  }

  /// The system keeps what one call writes in as few pieces as it can, and mapping costs by the piece; blocks are
  /// small. So before the first block comes into some part of the file, all of that part is written.
  void join(std::int64_t offset, std::int64_t n_bytes) {
    const std::lock_guard lock(mutex);
    static const std::vector<std::byte> zeros(kJoined);
    const std::int64_t last = (offset + n_bytes - 1) / kJoined;
    joined.resize(std::max(joined.size(), static_cast<std::size_t>(last) + 1));
    for (std::int64_t part = offset / kJoined; part <= last; ++part) {
      if (joined[static_cast<std::size_t>(part)]) continue;
      joined[static_cast<std::size_t>(part)] = true;
      const std::int64_t begin = part * kJoined, n = std::min(kJoined, size - begin);
      // Where this fails the block's own write says why.
      if (::pwrite(fd, zeros.data(), static_cast<std::size_t>(n), begin) != n) return;
    }
  }

  void forget(std::byte* data) noexcept {
    const std::lock_guard lock(mutex);
    const auto piece = pieces.find(data);
    ::munmap(data, static_cast<std::size_t>(piece->second.n_bytes));
    ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, piece->second.offset, piece->second.n_bytes);
    pieces.erase(piece);
  }
};

DiskTier::DiskTier(const std::string& folder) : folder_(folder), file_(std::make_shared<File>()) {
  if (folder_.empty()) {
    const char* temporary = std::getenv("TMPDIR");
    folder_ = temporary && *temporary ? temporary : "/var/tmp";
  }
  file_->fd = open_unnamed(folder_);
  check(file_->fd >= 0, ErrorKind::kIo,
        "no file for an offloaded cache can be made in {}: {}; choose another offload_folder", folder_,
        std::strerror(errno));
}

DiskTier::~DiskTier() = default;

TierMemory DiskTier::take(std::int64_t n_bytes) {
  const auto page = static_cast<std::int64_t>(page_size());
  const std::int64_t whole = (n_bytes + page - 1) / page * page;
  const std::lock_guard lock(file_->mutex);
  const std::int64_t offset = file_->size;
  const int failure = ::posix_fallocate(file_->fd, offset, whole);
  if (failure != 0) {
    struct statvfs free {};
    const bool known = ::statvfs(folder_.c_str(), &free) == 0;
    ::ftruncate(file_->fd, offset);
    throw Error(ErrorKind::kOutOfMemory,
                "{} has no room for {} more bytes of an offloaded cache ({} bytes are free there): {}; make room or "
                "choose another offload_folder",
                folder_, whole, known ? static_cast<std::int64_t>(free.f_bavail * free.f_frsize) : 0,
                std::strerror(failure));
  }
  void* const address =
      ::mmap(nullptr, static_cast<std::size_t>(whole), PROT_READ, MAP_SHARED | MAP_NORESERVE, file_->fd, offset);
  check(address != MAP_FAILED, ErrorKind::kOutOfMemory, "the system refused to map {} bytes of an offloaded cache: {}",
        whole, std::strerror(errno));
  auto* const data = static_cast<std::byte*>(address);
  file_->size += whole;
  file_->pieces[data] = {.n_bytes = whole, .offset = offset};
  return {.data = data, .n_bytes = n_bytes, .owner = std::shared_ptr<void>(data, [file = file_](void* piece) {
                                              file->forget(static_cast<std::byte*>(piece));
                                            })};
}

void DiskTier::write(std::byte* to, const std::byte* from, std::int64_t n_bytes, at::Device where) {
  if (!where.is_cpu()) {
    std::vector<std::byte> on_host(static_cast<std::size_t>(n_bytes));
    copy_bytes(on_host.data(), at::kCPU, from, where, n_bytes);
    return write(to, on_host.data(), n_bytes, at::kCPU);
  }
  std::int64_t offset = file_->offset_of(to);
  file_->join(offset, n_bytes);
  while (n_bytes > 0) {
    const ssize_t n = ::pwrite(file_->fd, from, static_cast<std::size_t>(n_bytes), offset);
    if (n < 0 && errno == EINTR) continue;
    check(n > 0, ErrorKind::kIo, "an offloaded cache could not write {} bytes in {}: {}", n_bytes, folder_,
          n < 0 ? std::strerror(errno) : "nothing was written");
    from += n, offset += n, n_bytes -= n;
  }
}

void DiskTier::zero(std::byte* data, std::int64_t n_bytes) {
  static constexpr std::byte kZeros[4096] = {};
  for (std::int64_t done = 0; done < n_bytes; done += std::ssize(kZeros))
    write(data + done, kZeros, std::min(std::ssize(kZeros), n_bytes - done), at::kCPU);
}

void DiskTier::prefetch(std::span<const ByteRange> ranges) {
  // Advice costs as much as reading where the system holds everything: a tenth of a step over 8,000 kivi tokens.
  if (file_->n_advices.load(std::memory_order_relaxed) <= 0) return;
  file_->n_advices.fetch_sub(1, std::memory_order_relaxed);
  // A failure shows when the bytes are fetched.
  for (const ByteRange& range : ranges) advise(range, MADV_WILLNEED);
}

void DiskTier::fetch(std::span<const ByteRange> ranges) {
  const long waits_before = n_waits_for_disk();
  for (const ByteRange& range : ranges) {
    const int status = advise(range, MADV_POPULATE_READ);
    // EINVAL: a system that does not know this advice reads when the bytes are touched.
    check(status == 0 || errno == EINVAL, ErrorKind::kIo, "an offloaded cache could not read {} bytes from {}: {}",
          range.n_bytes, folder_, std::strerror(errno));
  }
  constexpr int kForSomeLayers = 256;
  if (n_waits_for_disk() != waits_before) file_->n_advices.store(kForSomeLayers, std::memory_order_relaxed);
}

void DiskTier::release(std::span<const ByteRange> ranges) noexcept {
  for (const ByteRange& range : ranges) {
    // Whole pages inside the range: its neighbours may be private to this process (a cache that was loaded), and would
    // lose what was written to them.
    const auto address = reinterpret_cast<std::uintptr_t>(range.data);
    const std::uintptr_t begin = (address + page_size() - 1) / page_size() * page_size(),
                         end = (address + static_cast<std::size_t>(range.n_bytes)) / page_size() * page_size();
    if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  }
}

}  // namespace mneme
