#pragma once

#include <memory>
#include <string>

#include "mneme/cache/tier.h"

namespace mneme {

/// Blocks of a compute device that cannot read where they are kept (a host's memory, a disk): what is fetched is
/// copied to the device, by a stream of its own, while the device works on something else. Blocks are written once and
/// stay as they are, so a copy is right for as long as it is there. Memory that goes back takes its copies along, and
/// is not read any more: a prefetch may come too late.
///
/// With the CPU as the device, copies are made by whoever asks: that is how tests prove the rest.
class StagedTier final : public Tier {
 public:
  /// `store` must be readable by the host.
  StagedTier(std::shared_ptr<Tier> store, at::Device device);
  ~StagedTier() override;

  std::string name() const override { return store_->name(); }
  bool resident() const override { return false; }
  TierMemory take(std::int64_t n_bytes) override;
  void write(std::byte* to, const std::byte* from, std::int64_t n_bytes, at::Device where) override;
  void read(std::byte* to, at::Device where, const std::byte* from, std::int64_t n_bytes) override;
  void zero(std::byte* data, std::int64_t n_bytes) override { store_->zero(data, n_bytes); }

  void prefetch(std::span<const ByteRange> ranges) override;
  void fetch(std::span<const ByteRange> ranges) override;
  void release(std::span<const ByteRange> ranges) noexcept override;
  const std::byte* address(const std::byte* data, std::int64_t n_bytes) const override;

  /// Bytes of the device that copies take now.
  std::int64_t n_staged_bytes() const;

 private:
  struct Stage;

  const std::shared_ptr<Tier> store_;
  const std::shared_ptr<Stage> stage_;  // memory that was taken tells it when it goes back
};

}  // namespace mneme
