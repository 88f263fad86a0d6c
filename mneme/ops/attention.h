#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <span>

#include "mneme/kernels/codes.h"
#include "mneme/kernels/kernels.h"
#include "mneme/ops/workspace.h"

namespace mneme::ops {

/// One sequence's part of an attention call: its queries and where its blocks lie.
struct AttendSequence {
  /// spans[s]: the pointers of blocks kSpanBlocks * (first_span + s) .. ; null entries where nothing is held.
  std::span<const std::byte* const* const> spans = {};
  std::int64_t first_span = 0;
  std::int64_t first_query = 0;  ///< index in the sequence of its first query; key i is token i
  std::int64_t first_row = 0;    ///< its row in q and out
  std::int64_t n_queries = 0;
  std::int64_t n_keys = 0;    ///< 0: causal; else each query sees all of so many keys (encoders, cross-attention)
  std::int64_t n_sealed = 0;  ///< blocks before this one are encoded as AttendOptions::codes says
};

struct AttendOptions {
  kernels::BlockLayout layout = {};            ///< of raw blocks
  const kernels::BlockCodes* codes = nullptr;  ///< of encoded blocks, if there are any
  std::int64_t n_heads = 0;                    ///< query heads, a multiple of layout.n_heads
  float scale = 1.0f;                          ///< usually 1 / sqrt(key_dim)
  float softcap = 0.0f;                        ///< 0: none
  kernels::Visibility visibility = {};
  at::Tensor sinks = {};  ///< [n_heads] float32 sink logits, or undefined
  /// [n_heads, RelativeBias::floats_per_head(reach)] float32 as kernels::RelativeBias reads it, or undefined.
  at::Tensor relative_bias = {};
};

/// The reach of a relative bias of this many values a head. Throws Error(kInvalidArgument) for a number that has none.
std::int64_t reach_of_bias(std::int64_t floats_per_head);

/// Attention of queries straight from blocks: keys and values are never copied together.
///
/// q    rows [N, ..]: head h of a row is q[n][q_offset + h * key_dim ..], rotated, not scaled
/// out  rows [N, n_heads * value_dim]
///
/// A row's result is a function of its query and of what it sees, bit for bit, whatever else is in the call: keys are
/// taken block by block in order with a running softmax (Milakov & Gimelshein 2018, arXiv:1805.02867) within spans of
/// fixed borders, and spans are merged in order (Dao et al. 2022, arXiv:2205.14135), by one thread or by many.
void attend(Workspace& workspace, std::span<const AttendSequence> sequences, const AttendOptions& options,
            const Rows& q, std::int64_t q_offset, const Rows& out);

}  // namespace mneme::ops
