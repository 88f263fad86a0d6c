#include "mneme/ops/workspace.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "mneme/base/error.h"

namespace mneme::ops {
namespace {

constexpr std::int64_t kHugePage = std::int64_t{2} << 20;
constexpr std::int64_t kSmallestArena = std::int64_t{1} << 20;

std::int64_t round_up(std::int64_t n, std::int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

}  // namespace

DeviceBuffer::DeviceBuffer(std::int64_t n_bytes, at::Device device) : n_bytes_(n_bytes) {
  check(n_bytes >= 0, ErrorKind::kInvalidArgument, "a buffer of {} bytes cannot be", n_bytes);
  if (n_bytes == 0) return;
  if (device.is_cpu()) {
    void* address =
        ::mmap(nullptr, static_cast<std::size_t>(n_bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(address != MAP_FAILED, ErrorKind::kOutOfMemory,
          "out of memory: the system refused {} bytes; ask for fewer tokens (max_cache_len), smaller batches, or a "
          "quantized or offloaded cache",
          n_bytes);
    if (n_bytes >= 2 * kHugePage) ::madvise(address, static_cast<std::size_t>(n_bytes), MADV_HUGEPAGE);
    data_ = static_cast<std::byte*>(address);
    return;
  }
  try {
    owner_ = at::zeros({n_bytes}, at::TensorOptions().dtype(at::kByte).device(device));
  } catch (const c10::OutOfMemoryError&) {
    throw Error(ErrorKind::kOutOfMemory, "out of memory on {}: {} bytes were asked for", device.str(), n_bytes);
  }
  data_ = static_cast<std::byte*>(owner_.data_ptr());
}

DeviceBuffer::~DeviceBuffer() {
  if (data_ && !owner_.defined()) ::munmap(data_, static_cast<std::size_t>(n_bytes_));
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      n_bytes_(std::exchange(other.n_bytes_, 0)),
      owner_(std::move(other.owner_)) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(n_bytes_, other.n_bytes_);
  std::swap(owner_, other.owner_);
  return *this;
}

std::byte* Arena::bytes(std::int64_t n) {
  n = round_up(n, 64);
  while (buffer_ < buffers_.size() && used_ + n > buffers_[buffer_].n_bytes()) {
    ++buffer_;
    used_ = 0;
  }
  if (buffer_ == buffers_.size()) {
    // Doubling keeps the number of buffers logarithmic in what is asked for.
    const std::int64_t last = buffers_.empty() ? kSmallestArena : buffers_.back().n_bytes();
    buffers_.emplace_back(std::max(round_up(n, 4096), 2 * last), device_);
    used_ = 0;
  }
  std::byte* result = buffers_[buffer_].data() + used_;
  used_ += n;
  return result;
}

std::int64_t Arena::n_bytes() const noexcept {
  std::int64_t total = 0;
  for (const DeviceBuffer& buffer : buffers_) total += buffer.n_bytes();
  return total;
}

at::Tensor as_tensor(const Workspace& workspace, const Rows& rows) {
  return at::from_blob(rows.data, {rows.n, rows.width},
                       at::TensorOptions().dtype(at::kFloat).device(workspace.device()));
}

void fill_zero(const Workspace& workspace, const Rows& rows) {
  if (workspace.device().is_cpu()) {
    std::memset(rows.data, 0, static_cast<std::size_t>(rows.n * rows.width) * sizeof(float));
  } else {
    as_tensor(workspace, rows).zero_();
  }
}

void copy(const Workspace& workspace, const Rows& from, const Rows& to) {
  check(from.n == to.n && from.width == to.width, ErrorKind::kInvalidArgument, "copy: [{}, {}] and [{}, {}] differ",
        from.n, from.width, to.n, to.width);
  if (workspace.device().is_cpu()) {
    std::copy_n(from.data, from.n * from.width, to.data);
  } else {
    as_tensor(workspace, to).copy_(as_tensor(workspace, from));
  }
}

void select_rows(const Workspace& workspace, const Rows& from, std::span<const std::int64_t> rows, const Rows& to) {
  check(static_cast<std::int64_t>(rows.size()) == to.n && from.width == to.width, ErrorKind::kInvalidArgument,
        "select_rows: {} rows of width {} do not give [{}, {}]", rows.size(), from.width, to.n, to.width);
  for (std::int64_t i = 0; i < to.n; ++i) {
    const std::int64_t row = rows[static_cast<std::size_t>(i)];
    copy(workspace, {from.row(row), 1, from.width}, {to.row(i), 1, to.width});
  }
}

}  // namespace mneme::ops
