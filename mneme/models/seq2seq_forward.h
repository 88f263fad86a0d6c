#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "mneme/cache/encoder_decoder_cache.h"
#include "mneme/models/ragged.h"
#include "mneme/models/seq2seq_model.h"

namespace mneme {

/// What `forward` of an encoder-decoder takes at the door. Padding may be on any side of either part; it never enters a
/// cache.
struct Seq2SeqInput {
  at::Tensor input_ids = {};               ///< [B, S] int64: the source; undefined once the cache holds one
  at::Tensor attention_mask = {};          ///< [B, S], nonzero = a real token; undefined: all are real
  at::Tensor input_features = {};          ///< [B, width, rows] instead of ids, where the model reads them (Whisper)
  at::Tensor decoder_input_ids = {};       ///< [B, T] int64: the decoder's new tokens
  at::Tensor decoder_attention_mask = {};  ///< [B, past + T] or [B, T], as ForwardInput's
  std::int64_t logits_to_keep = 0;         ///< logits of the last so many decoder columns; 0: of all
};

/// Throws Error(kInvalidArgument) for a source where the cache holds one already, and for none where it does not: a
/// cross-attention cache is written once, so a new source needs reset() or another cache.
void check_source(const Seq2SeqInput& input, const EncoderDecoderCache& cache);

/// Throws Error(kInvalidArgument) for features of another shape than the model reads, with both, for features that are
/// no finite numbers, and for ids where it reads features or features where it reads ids.
void check_source_kind(const Seq2SeqInput& input, const Seq2SeqModel& model);

/// What the model's front end makes of features: each sequence's embeddings. check_source_kind must hold.
RaggedInput embedded_features(const Seq2SeqModel& model, const at::Tensor& input_features, ops::Workspace& workspace);

/// Encodes the source if the cache holds none, then runs the decoder: logits [B, T or logits_to_keep, V] float32 on the
/// decoder ids' device, zero for padding. Throws what `flatten` and EncoderDecoderCache::prepare_cross throw, and
/// Error(kInvalidArgument) for batches of different size; wrong input leaves the cache as it was.
at::Tensor forward(const Seq2SeqModel& model, const Seq2SeqInput& input, EncoderDecoderCache& cache);

}  // namespace mneme
