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

  /// The encoded blocks [block, end). Tiles of one kind follow each other, so that each asks for the next.
  void take(std::int64_t block, std::int64_t end) noexcept {
    if (block == 0 && block < end && codes_.sink_length) {
      attention_.look(block, 1);
      if (attention_.n_parts()) take_with_sinks();
      ++block;
    }
    while (block < end) {
      block = attention_.look(block, end);
      const int n = attention_.n_parts();
      for (int i = 0; i < n; ++i) {
        score(attention_.part(i), tiles(i), i + 1 < n ? tiles(i + 1) : tiles(0) + key_bytes_);
      }
      for (int i = 0; i < n; ++i) attention_.soften(attention_.part(i));
      for (int i = 0; i < n; ++i) {
        add_values(attention_.part(i), tiles(i) + key_bytes_, tiles(i + 1 < n ? i + 1 : i) + key_bytes_);
      }
    }
  }
  void take_raw(std::int64_t block, std::int64_t end) noexcept { attention_.take_raw(block, end); }

 private:
  using Decoder = TileDecoder<L, Format::kFormat>;
  using Part = typename Attention<L, Format>::Part;

  /// This head's tiles of a part of the run.
  const std::byte* tiles(int i) const noexcept { return block_of(attention_.part(i)) + head_offset_; }
  const std::byte* block_of(const Part& part) const noexcept {
    return args_.sealed[part.block - args_.raw.first_block];
  }

  void take_with_sinks() noexcept {
    const std::byte* const block = block_of(attention_.part(0));
    decode_head<L, Format::kFormat>(codes_, block + head_offset_, block + codes_.sink_offset(args_.head), args_.scratch,
                                    scratch_);
    attention_.take_raw(args_.scratch);
  }

  void score(const Part& part, const std::byte* tile, const std::byte* next) noexcept {
    if (!multiplies_keys_) {
      ask_for(next, key_bytes_);
      Decoder::decode(codes_.keys, TileSide::kKeys, key_dim_, tile, args_.scratch, scratch_);
      return attention_.score(part, args_.scratch);
    }
    keys_.set_tile(tile, next);
    attention_.score(part, [&](std::int64_t first, std::int64_t n_rows, std::int64_t n_panels, float* scores) {
      keys_.run(args_.q + first * key_dim_, key_dim_, n_rows, 0, n_panels, scores, kBlockTokens);
    });
  }

  void add_values(const Part& part, const std::byte* tile, const std::byte* next) noexcept {
    if (!multiplies_values_) {
      ask_for(next, value_bytes_);
      Decoder::decode(codes_.values, TileSide::kValues, codes_.raw.value_dim, tile, args_.scratch, scratch_);
      return attention_.add_values(part, args_.scratch);
    }
    values_.set_tile(tile, next);
    attention_.add_values(part, attention_.kPanelsAtOnce,
                          [&](const float* p, std::int64_t panel, std::int64_t n, float* products) {
                            values_.run(p, kBlockTokens, part.n_rows(), panel, n, products, n * kPanel);
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
  const std::int64_t sealed_end = args.n_sealed < begin ? begin : args.n_sealed < end ? args.n_sealed : end;
  attention.take(begin, sealed_end);
  attention.take_raw(sealed_end, end);
}

}  // namespace mneme::kernels
