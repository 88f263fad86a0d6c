#pragma once

#include <cstdint>

namespace mneme::kernels {

/// Tokens per block. Block b of a sequence holds its tokens 64 b .. 64 b + 63, always.
inline constexpr std::int64_t kBlockTokens = 64;
/// Attention is accumulated over spans of this many blocks, which are then merged in order: the span is the unit that
/// threads may share a long context by, and its borders are fixed so that the result does not depend on them.
inline constexpr std::int64_t kSpanBlocks = 8;

/// Which tokens a query may see: the one fact that masks, eviction and reported lengths are all derived from.
///
/// The query at index i sees [first_visible(i), i] and, with sinks, also [0, sinks). Indices count tokens of the
/// sequence (they are not RoPE positions). Zero means "no such limit".
struct Visibility {
  std::int64_t window = 0;  ///< sees itself and window - 1 tokens before (Mistral, Gemma 2)
  std::int64_t chunk = 0;   ///< sees only tokens of its own chunk floor(i / chunk) (Llama 4)
  std::int64_t sinks = 0;   ///< the first tokens stay visible whatever the window (Xiao et al. 2023, arXiv:2309.17453)

  [[gnu::always_inline]] constexpr std::int64_t first_visible(std::int64_t i) const {
    if (window && i >= window) return i - window + 1;
    if (chunk) return i - i % chunk;
    return 0;
  }
  [[gnu::always_inline]] constexpr bool limited() const { return window || chunk; }

  friend constexpr bool operator==(const Visibility&, const Visibility&) = default;
};

/// The slots of one block that a query sees of the keys before `end`: [first, last), and [0, n_sinks) before them.
struct VisibleSlots {
  int first, last, n_sinks;

  [[gnu::always_inline]] bool empty() const { return first >= last; }
  [[gnu::always_inline]] bool whole() const { return first == 0 && last == kBlockTokens; }

  [[gnu::always_inline]] static VisibleSlots of(const Visibility& visibility, std::int64_t query, std::int64_t end,
                                                std::int64_t block) {
    const int first = slot_of(visibility.first_visible(query), block), last = slot_of(end, block);
    const int sinks = slot_of(visibility.sinks, block), n_sinks = sinks < last ? sinks : last;
    if (n_sinks >= first) return {0, last, 0};
    if (first >= last) return {0, n_sinks, 0};
    return {first, last, n_sinks};
  }

 private:
  [[gnu::always_inline]] static int slot_of(std::int64_t token, std::int64_t block) {
    const std::int64_t slot = token - block * kBlockTokens;
    return static_cast<int>(slot < 0 ? 0 : slot > kBlockTokens ? kBlockTokens : slot);
  }
};

}  // namespace mneme::kernels
