#include "mneme/cache/staged_tier.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>

namespace mneme {

/// What is on the device.
struct StagedTier::Stage {
  /// The copy of a run of bytes of the store.
  struct Piece {
    at::Tensor bytes;
    std::optional<c10::Event> arrived;  // other devices than the CPU only
    std::int64_t n_fetches = 0;         // not yet released
  };
  using Pieces = std::map<const std::byte*, Piece>;  // by where they lie in the store

  const at::Device device;
  const std::optional<c10::Stream> stream;  // copies are made on it; none for the CPU
  std::mutex mutex;
  Pieces pieces;
  std::map<const std::byte*, std::int64_t> taken;  // bytes of the store, from where they begin

  explicit Stage(at::Device compute_device)
      : device(compute_device),
        stream(device.is_cpu() ? std::nullopt
                               : std::optional(guard().getStreamFromGlobalPool(device, /*isHighPriority=*/false))) {}

  c10::impl::VirtualGuardImpl guard() const { return c10::impl::VirtualGuardImpl(device.type()); }

  /// The first piece that ends behind an address.
  Pieces::iterator behind(const std::byte* data) {
    auto piece = pieces.upper_bound(data);
    if (piece == pieces.begin()) return piece;
    const auto before = std::prev(piece);
    return before->first + before->second.bytes.numel() > data ? before : piece;
  }

  /// Calls f(piece) for each that overlaps a range.
  template <class F>
  void each_in(const ByteRange& range, F&& f) {
    const std::byte* const end = range.data + range.n_bytes;
    for (auto piece = behind(range.data); piece != pieces.end() && piece->first < end;) f(piece++);
  }

  bool is_taken(const ByteRange& range) const {
    const auto after = taken.upper_bound(range.data);
    if (after == taken.begin()) return false;
    const auto& [begin, n_bytes] = *std::prev(after);
    return range.data + range.n_bytes <= begin + n_bytes;
  }

  /// Memory of the store goes back.
  void forget(const ByteRange& range) {
    const std::lock_guard lock(mutex);
    each_in(range, [&](auto piece) { pieces.erase(piece); });
    taken.erase(range.data);
  }

  /// Copies what of a range is not there yet.
  void bring(const ByteRange& range) {
    if (!is_taken(range)) return;
    const std::byte* const end = range.data + range.n_bytes;
    for (const std::byte* at = range.data; at < end;) {
      const auto next = behind(at);
      if (next != pieces.end() && next->first <= at) {
        at = next->first + next->second.bytes.numel();
        continue;
      }
      const std::byte* const stop = next == pieces.end() ? end : std::min(end, next->first);
      pieces.emplace(at, copy_of({at, stop - at}));
      at = stop;
    }
  }

  /// The device's work from here on comes after the copy, and the copy's memory goes after that work.
  void wait_for(const Piece& piece) const {
    if (!stream) return;
    const c10::Stream current = guard().getStream(device);
    piece.arrived->block(current);
    piece.bytes.record_stream(current);
  }

  Piece copy_of(const ByteRange& range) const {
    const c10::OptionalStreamGuard on_stream(stream);
    Piece piece{.bytes = at::empty({range.n_bytes}, at::TensorOptions().dtype(at::kByte).device(device)),
                .arrived = std::nullopt};
    copy_bytes(static_cast<std::byte*>(piece.bytes.data_ptr()), device, range.data, at::kCPU, range.n_bytes);
    if (stream) piece.arrived.emplace(device.type()).record(*stream);
    return piece;
  }
};

StagedTier::StagedTier(std::shared_ptr<Tier> store, at::Device device)
    : store_(std::move(store)), stage_(std::make_shared<Stage>(device)) {}

StagedTier::~StagedTier() = default;

TierMemory StagedTier::take(std::int64_t n_bytes) {
  TierMemory memory = store_->take(n_bytes);
  const ByteRange range{memory.data, memory.n_bytes};
  {
    const std::lock_guard lock(stage_->mutex);
    stage_->taken[range.data] = range.n_bytes;
  }
  memory.owner =
      std::shared_ptr<void>(memory.data, [stage = stage_, owner = std::move(memory.owner), range](void*) mutable {
        stage->forget(range);
        owner.reset();
      });
  return memory;
}

// A copy to the host is over when it returns (copy_bytes), so the stream of copies need not wait for it. Copies on the
// device that hold what was there before get the new bytes too: somebody may be reading the rest of them.
void StagedTier::write(std::byte* to, const std::byte* from, std::int64_t n_bytes, at::Device where) {
  store_->write(to, from, n_bytes, where);
  const std::lock_guard lock(stage_->mutex);
  stage_->each_in({to, n_bytes}, [&](auto at) {
    const std::byte* const first = std::max<const std::byte*>(at->first, to);
    const std::byte* const end = std::min<const std::byte*>(at->first + at->second.bytes.numel(), to + n_bytes);
    stage_->wait_for(at->second);
    copy_bytes(static_cast<std::byte*>(at->second.bytes.data_ptr()) + (first - at->first), stage_->device,
               from + (first - to), where, end - first);
  });
}

void StagedTier::read(std::byte* to, at::Device where, const std::byte* from, std::int64_t n_bytes) {
  store_->read(to, where, from, n_bytes);
}

void StagedTier::prefetch(std::span<const ByteRange> ranges) {
  store_->fetch(ranges);
  {
    const std::lock_guard lock(stage_->mutex);
    for (const ByteRange& range : ranges) stage_->bring(range);
  }
  store_->release(ranges);
}

void StagedTier::fetch(std::span<const ByteRange> ranges) {
  store_->fetch(ranges);
  {
    const std::lock_guard lock(stage_->mutex);
    for (const ByteRange& range : ranges) {
      stage_->bring(range);
      stage_->each_in(range, [&](auto piece) {
        ++piece->second.n_fetches;
        stage_->wait_for(piece->second);
      });
    }
  }
  store_->release(ranges);
}

void StagedTier::release(std::span<const ByteRange> ranges) noexcept {
  const std::lock_guard lock(stage_->mutex);
  for (const ByteRange& range : ranges) {
    stage_->each_in(range, [&](auto piece) {
      if (--piece->second.n_fetches <= 0) stage_->pieces.erase(piece);
    });
  }
}

const std::byte* StagedTier::address(const std::byte* data, std::int64_t n_bytes) const {
  const std::lock_guard lock(stage_->mutex);
  auto piece = stage_->behind(data);
  if (piece == stage_->pieces.end() || piece->first > data) {  // written since the last fetch
    stage_->bring({data, n_bytes});
    piece = stage_->behind(data);
    stage_->wait_for(piece->second);
  }
  return static_cast<const std::byte*>(piece->second.bytes.const_data_ptr()) + (data - piece->first);
}

std::int64_t StagedTier::n_staged_bytes() const {
  const std::lock_guard lock(stage_->mutex);
  std::int64_t total = 0;
  for (const auto& [data, piece] : stage_->pieces) total += piece.bytes.numel();
  return total;
}

}  // namespace mneme
