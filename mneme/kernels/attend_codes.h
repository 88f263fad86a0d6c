#pragma once

#include "mneme/kernels/attention_stepped.h"
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
        key_codes_(codes_.keys.code_bytes(TileSide::kKeys, key_dim_)),
        value_bytes_(codes_.value_bytes()),
        value_codes_(codes_.values.code_bytes(TileSide::kValues, codes_.raw.value_dim)),
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
    if (block < end) {  // nothing else has asked for the first
      ask_for(tiles_of(block) + key_codes_, key_bytes_ - key_codes_);
      ask_for(tiles_of(block), key_codes_);
    }
    while (block < end) {
      block = attention_.look(block, end);
      n_ = attention_.n_parts();
      next_run_ = block < end ? tiles_of(block) : nullptr;
      score();
      attention_.soften();
      add_values();
    }
  }
  /// The raw blocks after them.
  void take_raw(std::int64_t block, std::int64_t end) noexcept {
    kernels::take_raw(attention_, block, end);
    attention_.finish_states();
  }

 private:
  using Decoder = TileDecoder<L, Format::kFormat>;
  using Part = typename Attention<L, Format>::Part;
  using Job = typename CodeProduct<L>::Job;

  const std::byte* block_of(std::int64_t block) const noexcept { return args_.sealed[block - args_.raw.first_block]; }
  const std::byte* tiles_of(std::int64_t block) const noexcept { return block_of(block) + head_offset_; }

  /// The k-th tile that the run reads: its parts' keys, their values, then the next run's first keys.
  const std::byte* tile(int k) const noexcept {
    const std::byte* const tiles = k >= 2 * n_ && next_run_ ? next_run_ : tiles_of(attention_.part(k % n_).block);
    return is_value(k) ? tiles + key_bytes_ : tiles;
  }
  bool is_value(int k) const noexcept { return k >= n_ && k < 2 * n_; }
  const std::byte* scales(int k) const noexcept { return tile(k) + (is_value(k) ? value_codes_ : key_codes_); }

  Job job(int k) const noexcept {
    const int later = k + CodeProduct<L>::kMostTiles;
    return {.tile = tile(k),
            .next = tile(k + 1),
            .next_scales = scales(later),
            .n_scale_bytes = is_value(later) ? value_bytes_ - value_codes_ : key_bytes_ - key_codes_};
  }

  void take_with_sinks() noexcept {
    const std::byte* const block = block_of(attention_.part(0).block);
    decode_head<L, Format::kFormat>(codes_, block + head_offset_, block + codes_.sink_offset(args_.head), args_.scratch,
                                    scratch_);
    attention_.take_raw_run(args_.scratch);
  }

  /// Tiles that cannot be multiplied are decoded one after another.
  void score() noexcept {
    for (int i = 0; i < n_; ++i) {
      const Part& part = attention_.part(i);
      if (!multiplies_keys_) {
        ask_for(tile(i + 1), key_bytes_);
        Decoder::decode(codes_.keys, TileSide::kKeys, key_dim_, tile(i), args_.scratch, scratch_);
        attention_.score(part, args_.scratch);
        continue;
      }
      Job& to = jobs_[i] = job(i);
      to.x = args_.q + part.begin * key_dim_, to.x_stride = key_dim_, to.n_rows = part.n_rows();
      to.n_panels = part.n_slots / kPanel;
      to.y = attention_.scores(part), to.y_stride = kBlockTokens;
    }
    if (multiplies_keys_) keys_.run(jobs_, n_);
  }

  void add_values() noexcept {
    if (!multiplies_values_) {
      for (int i = 0; i < n_; ++i) {
        ask_for(tile(n_ + i + 1), value_bytes_);
        Decoder::decode(codes_.values, TileSide::kValues, codes_.raw.value_dim, tile(n_ + i), args_.scratch, scratch_);
        attention_.add_values(attention_.part(i), args_.scratch);
      }
      return;
    }
    for (int i = 0; i < n_; ++i) {
      const Part& part = attention_.part(i);
      Job& to = jobs_[i] = job(n_ + i);
      to.x = attention_.scores(part), to.x_stride = kBlockTokens, to.n_rows = part.n_rows();
      to.n_panels = TileCodes::n_panels(TileSide::kValues, codes_.raw.value_dim);
      to.y = attention_.outputs(part), to.y_stride = attention_.output_stride();
      to.c = attention_.corrections(part);
    }
    values_.run(jobs_, n_);
  }

  const AttendCodesArgs& args_;
  const BlockCodes& codes_;
  const std::int64_t key_dim_, key_bytes_, key_codes_, value_bytes_, value_codes_, head_offset_;
  const bool multiplies_keys_, multiplies_values_;
  float* const scratch_;  ///< of whichever tile is at work
  CodeProduct<L> keys_, values_;
  Job jobs_[kMaxAttendRows];
  Attention<L, Format> attention_;
  int n_ = 0;                            ///< parts of the run
  const std::byte* next_run_ = nullptr;  ///< its first tiles
};

template <class L, class Format>
void attend_codes(const AttendCodesArgs& args, std::int64_t begin, std::int64_t end, float* states) noexcept {
  CodesAttention<L, Format> attention(args, states);
  const std::int64_t sealed_end = args.n_sealed < begin ? begin : args.n_sealed < end ? args.n_sealed : end;
  attention.take(begin, sealed_end);
  attention.take_raw(sealed_end, end);
}

}  // namespace mneme::kernels
