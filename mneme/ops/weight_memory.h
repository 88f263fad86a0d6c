#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "mneme/ops/workspace.h"

namespace mneme::ops {

/// Memory for weights. On the CPU small pieces lie side by side in slabs, so that the system can back all of them with
/// huge pages: a decode step walks through every weight, and with 4 KiB pages the walk pays for its page tables
/// (measured: 15.8 against 18.7 GB/s on two cores). A slab goes back when its last piece does; what nobody touched
/// never was taken.
class WeightMemory {
 public:
  WeightMemory() = default;
  /// Zeroed, 64-byte aligned. Throws Error(kOutOfMemory). Any thread.
  WeightMemory(std::int64_t n_bytes, at::Device device);

  std::byte* data() const noexcept { return data_; }
  std::int64_t n_bytes() const noexcept { return n_bytes_; }

 private:
  std::shared_ptr<DeviceBuffer> slab_;
  std::byte* data_ = nullptr;
  std::int64_t n_bytes_ = 0;
};

}  // namespace mneme::ops
