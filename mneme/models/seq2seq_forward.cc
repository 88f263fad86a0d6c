#include "mneme/models/seq2seq_forward.h"

#include <c10/core/InferenceMode.h>

#include "mneme/base/error.h"
#include "mneme/models/ragged.h"

namespace mneme {

void check_source(const Seq2SeqInput& input, const EncoderDecoderCache& cache) {
  check(!cache.is_written() || !input.input_ids.defined(), ErrorKind::kInvalidArgument,
        "input_ids were given with a cache that holds {} encoder states already; leave them out, or reset() the cache "
        "for another source",
        cache.cross_attention_cache().seq_length());
  check(cache.is_written() || input.input_ids.defined(), ErrorKind::kInvalidArgument,
        "there is nothing to decode from: give input_ids, or a cache that holds encoder states");
}

at::Tensor forward(const Seq2SeqModel& model, const Seq2SeqInput& input, EncoderDecoderCache& cache) {
  const c10::InferenceMode inference;
  const Cache::Use use(cache.cross_attention_cache());
  check_source(input, cache);
  check(input.decoder_input_ids.defined(), ErrorKind::kInvalidArgument,
        "give decoder_input_ids: what the decoder has so far, decoder_start_token_id first");
  check_fits(model.cross_cache_shape(), cache.cross_attention_cache());
  const BoundDecoder decoder(model, cache.cross_attention_cache());
  const ForwardInput new_tokens{.input_ids = input.decoder_input_ids,
                                .attention_mask = input.decoder_attention_mask,
                                .logits_to_keep = input.logits_to_keep};
  Cache& past = cache.self_attention_cache();
  const std::int64_t n_decoded = flatten(new_tokens, decoder, past).n_sequences;  // wrong input is refused before work
  RaggedInput source;
  if (!cache.is_written()) {
    source = flatten({.input_ids = input.input_ids, .attention_mask = input.attention_mask}, model.config(),
                     model.device(), {});
  }
  const std::int64_t n_sources = cache.is_written() ? cache.n_sequences() : source.n_sequences;
  check(n_decoded == n_sources, ErrorKind::kInvalidArgument,
        "{} sequences of decoder_input_ids were given for {} of the encoder; there must be one for each", n_decoded,
        n_sources);
  if (!cache.is_written()) encode_into(model, source.batch(), cache);
  return forward(decoder, new_tokens, past);
}

}  // namespace mneme
