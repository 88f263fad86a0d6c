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

  /// Zeroed memory. Throws Error(kOutOfMemory), or Error(kIo) for a folder without room.
  virtual TierMemory take(std::int64_t n_bytes) = 0;

  /// to (of this tier) <- from (of the compute device). Throws Error(kIo).
  virtual void write(std::byte* to, const std::byte* from, std::int64_t n_bytes) = 0;

  /// Sets bytes of this tier to zero. Throws Error(kIo).
  virtual void zero(std::byte* data, std::int64_t n_bytes) = 0;

  /// Makes reads of these ranges fast, and returns once they are. Throws Error(kIo) where they cannot be read.
  virtual void fetch(std::span<const ByteRange>) {}
  /// Says that these ranges are not read for a while: their memory may be used for something else.
  virtual void release(std::span<const ByteRange>) noexcept {}
};

/// Memory of the compute device itself.
class DeviceTier final : public Tier {
 public:
  explicit DeviceTier(at::Device device) : device_(device) {}

  std::string name() const override { return device_.str(); }
  bool resident() const override { return true; }
  TierMemory take(std::int64_t n_bytes) override;
  void write(std::byte* to, const std::byte* from, std::int64_t n_bytes) override;
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
  void write(std::byte* to, const std::byte* from, std::int64_t n_bytes) override;
  void zero(std::byte* data, std::int64_t n_bytes) override;
};

/// Bytes on a device as a tensor (a view).
at::Tensor bytes_view(std::byte* data, std::int64_t n_bytes, at::Device device);

}  // namespace mneme
