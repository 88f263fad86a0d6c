#include "mneme/cache/tier.h"

#include <cstring>

#include "mneme/base/error.h"
#include "mneme/ops/workspace.h"

namespace mneme {

namespace {

at::Tensor bytes_view(std::byte* data, std::int64_t n_bytes, at::Device device) {
  return at::from_blob(data, {n_bytes}, at::TensorOptions().dtype(at::kByte).device(device));
}

}  // namespace

void copy_bytes(std::byte* to, at::Device to_device, const std::byte* from, at::Device from_device,
                std::int64_t n_bytes) {
  if (to_device.is_cpu() && from_device.is_cpu()) {
    std::memcpy(to, from, static_cast<std::size_t>(n_bytes));
  } else {
    bytes_view(to, n_bytes, to_device)
        .copy_(bytes_view(const_cast<std::byte*>(from), n_bytes, from_device), /*non_blocking=*/!to_device.is_cpu());
  }
}

void Tier::read(std::byte* to, at::Device where, const std::byte* from, std::int64_t n_bytes) {
  copy_bytes(to, where, from, at::kCPU, n_bytes);
}

TierMemory DeviceTier::take(std::int64_t n_bytes) {
  auto buffer = std::make_shared<ops::DeviceBuffer>(n_bytes, device_);
  std::byte* const data = buffer->data();
  return {.data = data, .n_bytes = n_bytes, .owner = std::move(buffer)};
}

void DeviceTier::write(std::byte* to, const std::byte* from, std::int64_t n_bytes, at::Device where) {
  copy_bytes(to, device_, from, where, n_bytes);
}

void DeviceTier::read(std::byte* to, at::Device where, const std::byte* from, std::int64_t n_bytes) {
  copy_bytes(to, where, from, device_, n_bytes);
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

void MappedTier::write(std::byte* to, const std::byte* from, std::int64_t n_bytes, at::Device where) {
  copy_bytes(to, at::kCPU, from, where, n_bytes);
}

void MappedTier::zero(std::byte* data, std::int64_t n_bytes) {
  std::memset(data, 0, static_cast<std::size_t>(n_bytes));
}

TierMemory HostTier::take(std::int64_t n_bytes) {
  try {
    auto memory = std::make_shared<at::Tensor>(
        at::empty({n_bytes}, at::TensorOptions().dtype(at::kByte).pinned_memory(pinned_)).zero_());
    auto* const data = static_cast<std::byte*>(memory->data_ptr());
    return {.data = data, .n_bytes = n_bytes, .owner = std::move(memory)};
  } catch (const c10::Error& error) {
    throw Error(ErrorKind::kOutOfMemory, "the host has no room for {} more bytes of an offloaded cache: {}", n_bytes,
                error.what_without_backtrace());
  }
}

void HostTier::write(std::byte* to, const std::byte* from, std::int64_t n_bytes, at::Device where) {
  copy_bytes(to, at::kCPU, from, where, n_bytes);
}

void HostTier::zero(std::byte* data, std::int64_t n_bytes) { std::memset(data, 0, static_cast<std::size_t>(n_bytes)); }

}  // namespace mneme
