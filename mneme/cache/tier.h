#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace mneme {

/// A piece of memory of a tier; it goes back when `owner` does.
struct TierMemory {
  std::byte* data = nullptr;
  std::int64_t n_bytes = 0;
  std::shared_ptr<void> owner = {};
};

/// A run of bytes of a tier.
struct ByteRange {
  const std::byte* data = nullptr;
  std::int64_t n_bytes = 0;

  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

/// Where blocks lie. Whatever the tier, a block has an address; tiers differ in who may read there, in what a read
/// costs, and in what counts as memory in use. Thread safe.
class Tier {
 public:
  virtual ~Tier() = default;

  /// "cpu", "cuda:0", "disk".
  virtual std::string name() const = 0;
  /// Whether its bytes are memory of the compute device: they count against `max_cache_bytes`.
  virtual bool resident() const = 0;

  /// Where its bytes lie: who may read them at their address.
  virtual at::Device device() const { return at::kCPU; }

  /// Zeroed memory. Throws Error(kOutOfMemory), or Error(kIo) for a folder without room.
  virtual TierMemory take(std::int64_t n_bytes) = 0;

  /// to (of this tier) <- from, which lies on `where`. Throws Error(kIo).
  virtual void write(std::byte* to, const std::byte* from, std::int64_t n_bytes, at::Device where) = 0;

  /// to, which lies on `where` <- from (of this tier). Throws Error(kIo).
  virtual void read(std::byte* to, at::Device where, const std::byte* from, std::int64_t n_bytes);

  /// Sets bytes of this tier to zero. Throws Error(kIo).
  virtual void zero(std::byte* data, std::int64_t n_bytes) = 0;

  /// Starts to make reads of these ranges fast.
  virtual void prefetch(std::span<const ByteRange> ranges) { fetch(ranges); }
  /// Whether `prefetch` may wait for them, so that only a thread of its own should call it.
  virtual bool prefetch_waits() const { return true; }
  /// Makes reads of these ranges fast, and returns once they are, or once the compute device will wait until they are.
  /// Throws Error(kIo) where they cannot be read.
  virtual void fetch(std::span<const ByteRange>) {}
  /// The opposite of one fetch: says that these ranges are not read for a while, and their memory may be used for
  /// something else.
  virtual void release(std::span<const ByteRange>) noexcept {}
  /// Where the compute device reads these bytes, which were fetched or written before.
  virtual const std::byte* address(const std::byte* data, std::int64_t /*n_bytes*/) const { return data; }
};

/// Memory of the compute device itself.
class DeviceTier final : public Tier {
 public:
  explicit DeviceTier(at::Device device) : device_(device) {}

  std::string name() const override { return device_.str(); }
  bool resident() const override { return true; }
  at::Device device() const override { return device_; }
  TierMemory take(std::int64_t n_bytes) override;
  void write(std::byte* to, const std::byte* from, std::int64_t n_bytes, at::Device where) override;
  void read(std::byte* to, at::Device where, const std::byte* from, std::int64_t n_bytes) override;
  void zero(std::byte* data, std::int64_t n_bytes) override;

 private:
  const at::Device device_;
};

/// A file that was there before: nothing is taken from it.
class MappedTier final : public Tier {
 public:
  std::string name() const override { return "file"; }
  bool resident() const override { return false; }
  TierMemory take(std::int64_t n_bytes) override;
  void write(std::byte* to, const std::byte* from, std::int64_t n_bytes, at::Device where) override;
  void zero(std::byte* data, std::int64_t n_bytes) override;
};

/// Memory of the host, for caches of another device: page-locked, so that the device copies it by itself.
class HostTier final : public Tier {
 public:
  explicit HostTier(at::Device compute_device) : pinned_(!compute_device.is_cpu()) {}

  std::string name() const override { return "cpu"; }
  bool resident() const override { return false; }
  TierMemory take(std::int64_t n_bytes) override;
  void write(std::byte* to, const std::byte* from, std::int64_t n_bytes, at::Device where) override;
  void zero(std::byte* data, std::int64_t n_bytes) override;

 private:
  const bool pinned_;
};

/// to <- from, each on its device; in the order of the current stream where one of them is not the host.
void copy_bytes(std::byte* to, at::Device to_device, const std::byte* from, at::Device from_device,
                std::int64_t n_bytes);

}  // namespace mneme
