#include "mneme/cache/tier.h"

#include <cstring>

#include "mneme/base/error.h"
#include "mneme/ops/workspace.h"

namespace mneme {

at::Tensor bytes_view(std::byte* data, std::int64_t n_bytes, at::Device device) {
  return at::from_blob(data, {n_bytes}, at::TensorOptions().dtype(at::kByte).device(device));
}

TierMemory DeviceTier::take(std::int64_t n_bytes) {
  auto buffer = std::make_shared<ops::DeviceBuffer>(n_bytes, device_);
  std::byte* const data = buffer->data();
  return {.data = data, .n_bytes = n_bytes, .owner = std::move(buffer)};
}

void DeviceTier::write(std::byte* to, const std::byte* from, std::int64_t n_bytes) {
  if (device_.is_cpu()) {
    std::memcpy(to, from, static_cast<std::size_t>(n_bytes));
  } else {
    bytes_view(to, n_bytes, device_).copy_(bytes_view(const_cast<std::byte*>(from), n_bytes, device_));
  }
}

void DeviceTier::zero(std::byte* data, std::int64_t n_bytes) {
  if (device_.is_cpu()) {
    std::memset(data, 0, static_cast<std::size_t>(n_bytes));
  } else {
    bytes_view(data, n_bytes, device_).zero_();
  }
}

TierMemory MappedTier::take(std::int64_t n_bytes) {
  throw Error(ErrorKind::kOutOfMemory, "{} more bytes of a file that is already there cannot be", n_bytes);
}

void MappedTier::write(std::byte* to, const std::byte* from, std::int64_t n_bytes) {
  std::memcpy(to, from, static_cast<std::size_t>(n_bytes));
}

void MappedTier::zero(std::byte* data, std::int64_t n_bytes) {
  std::memset(data, 0, static_cast<std::size_t>(n_bytes));
}

}  // namespace mneme
