#include "mneme/ops/weight_memory.h"

#include <mutex>

namespace mneme::ops {
namespace {

constexpr std::int64_t kSlabBytes = std::int64_t{64} << 20;
constexpr std::int64_t kLargeBytes = kSlabBytes / 4;  // pieces from here on have a buffer of their own

/// The slab that small pieces are cut from. It is kept by its pieces alone.
struct OpenSlab {
  std::mutex mutex;
  std::weak_ptr<DeviceBuffer> slab;
  std::int64_t used = 0;
};

}  // namespace

WeightMemory::WeightMemory(std::int64_t n_bytes, at::Device device) : n_bytes_(n_bytes) {
  if (!device.is_cpu() || n_bytes <= 0 || n_bytes >= kLargeBytes) {
    slab_ = std::make_shared<DeviceBuffer>(n_bytes, device);
    data_ = slab_->data();
    return;
  }
  static OpenSlab open;
  const std::lock_guard lock(open.mutex);
  slab_ = open.slab.lock();
  if (!slab_ || open.used + n_bytes > kSlabBytes) {
    open.slab = slab_ = std::make_shared<DeviceBuffer>(kSlabBytes, device);
    open.used = 0;
  }
  data_ = slab_->data() + open.used;
  open.used += (n_bytes + 63) / 64 * 64;
}

}  // namespace mneme::ops
