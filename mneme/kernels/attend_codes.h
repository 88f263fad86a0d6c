#pragma once

#include "mneme/kernels/attention.h"
#include "mneme/kernels/code_product.h"
#include "mneme/kernels/decode_codes.h"

namespace mneme::kernels {

/// Attention over the encoded blocks of one head. Codes are multiplied as they are where code_product.h can do it;
/// other tiles, and block 0 where it holds raw tokens, become raw tiles first.
template <class L, class Format>
class CodesAttention {
 public:
  CodesAttention(const AttendCodesArgs& args, float* states) noexcept
      : args_(args),
        codes_(*args.codes),
        key_dim_(codes_.raw.key_dim),
        key_bytes_(codes_.key_bytes()),
        value_bytes_(codes_.value_bytes()),
        head_offset_(codes_.head_offset(args.head)),
        multiplies_keys_(codes_.keys.is_multiplied(TileSide::kKeys, key_dim_)),
        multiplies_values_(codes_.values.is_multiplied(TileSide::kValues, codes_.raw.value_dim)),
        scratch_(reinterpret_cast<float*>(args.scratch + codes_.raw.head_bytes())),
        keys_(codes_.keys, TileSide::kKeys, key_dim_, scratch_),
        values_(codes_.values, TileSide::kValues, codes_.raw.value_dim, scratch_),
        attention_(args.raw, states) {
    attention_.clear_states();
  }

  void take(std::int64_t block, bool has_next) noexcept {
    if (!attention_.sees(block)) return;
    const std::byte* const* blocks = args_.sealed + block - args_.raw.first_block;
    const std::byte* const tiles = blocks[0] + head_offset_;
    const std::byte* const next = has_next && blocks[1] ? blocks[1] + head_offset_ : nullptr;
    if (next) ask_for(next, key_bytes_);
    if (block == 0 && codes_.sink_length) {
      decode_head<L, Format::kFormat>(codes_, tiles, blocks[0] + codes_.sink_offset(args_.head), args_.scratch,
                                      scratch_);
      return attention_.take(args_.scratch, nullptr);
    }
    score(tiles);
    attention_.soften();
    if (next) ask_for(next + key_bytes_, value_bytes_);
    add_values(tiles + key_bytes_);
  }
  void take_raw(std::int64_t block, bool has_next) noexcept { attention_.take_raw(block, has_next); }

 private:
  using Decoder = TileDecoder<L, Format::kFormat>;

  void score(const std::byte* tile) noexcept {
    if (!multiplies_keys_) {
      Decoder::decode(codes_.keys, TileSide::kKeys, key_dim_, tile, args_.scratch, scratch_);
      return attention_.score(args_.scratch);
    }
    keys_.set_tile(tile);
    attention_.score([&](std::int64_t first, std::int64_t n_rows, std::int64_t n_panels, float* scores) {
      keys_.run(args_.q + first * key_dim_, key_dim_, n_rows, 0, n_panels, scores, kBlockTokens);
    });
  }

  void add_values(const std::byte* tile) noexcept {
    if (!multiplies_values_) {
      Decoder::decode(codes_.values, TileSide::kValues, codes_.raw.value_dim, tile, args_.scratch, scratch_);
      return attention_.add_values(args_.scratch);
    }
    values_.set_tile(tile);
    attention_.add_values(attention_.kPanelsAtOnce,
                          [&](const float* p, std::int64_t panel, std::int64_t n, float* products) {
                            values_.run(p, kBlockTokens, attention_.n_rows(), panel, n, products, n * kPanel);
                          });
  }

  static void ask_for(const std::byte* tile, std::int64_t n_bytes) noexcept {
    for (std::int64_t i = 0; i < n_bytes; i += 64) __builtin_prefetch(tile + i);
  }

  const AttendCodesArgs& args_;
  const BlockCodes& codes_;
  const std::int64_t key_dim_, key_bytes_, value_bytes_, head_offset_;
  const bool multiplies_keys_, multiplies_values_;
  float* const scratch_;  ///< of whichever tile is at work
  CodeProduct<L> keys_, values_;
  Attention<L, Format> attention_;
};

template <class L, class Format>
void attend_codes(const AttendCodesArgs& args, std::int64_t begin, std::int64_t end, float* states) noexcept {
  CodesAttention<L, Format> attention(args, states);
  const std::int64_t sealed_end = args.n_sealed < end ? args.n_sealed : end;
  std::int64_t block = begin;
  for (; block < sealed_end; ++block) attention.take(block, block + 1 < sealed_end);
  for (; block < end; ++block) attention.take_raw(block, block + 1 < end);
}

}  // namespace mneme::kernels
