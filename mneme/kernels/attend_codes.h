#pragma once

#include "mneme/kernels/attention.h"
#include "mneme/kernels/decode_codes.h"

namespace mneme::kernels {

template <class L, class Format>
void attend_codes(const AttendCodesArgs& args, std::int64_t begin, std::int64_t end, float* states) noexcept {
  const BlockCodes& codes = *args.codes;
  std::byte* decoded = args.scratch;
  auto* scratch = reinterpret_cast<float*>(args.scratch + codes.raw.head_bytes());
  const std::int64_t first = args.raw.first_block, sealed_end = args.n_sealed < end ? args.n_sealed : end;
  Attention<L, Format> attention(args.raw, states);
  attention.clear_states();
  std::int64_t block = begin;
  for (; block < sealed_end; ++block) {
    if (!attention.sees(block)) continue;
    const std::byte* stored = args.sealed[block - first];
    decode_head<L, Format::kFormat>(codes, stored + codes.head_offset(args.head),
                                    block == 0 && codes.sink_length ? stored + codes.sink_offset(args.head) : nullptr,
                                    decoded, scratch);
    attention.take(decoded, nullptr);
  }
  for (; block < end; ++block) attention.take_raw(block, block + 1 < end);
}

}  // namespace mneme::kernels
