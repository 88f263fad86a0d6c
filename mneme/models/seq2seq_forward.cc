#include "mneme/models/seq2seq_forward.h"

#include <c10/core/InferenceMode.h>
#include <fmt/ranges.h>

#include "mneme/base/error.h"

namespace mneme {

void check_source(const Seq2SeqInput& input, const EncoderDecoderCache& cache) {
  const bool given = input.input_ids.defined() || input.input_features.defined();
  check(!cache.is_written() || !given, ErrorKind::kInvalidArgument,
        "a source was given with a cache that holds {} encoder states already; leave them out, or reset() the cache "
        "for another source",
        cache.cross_attention_cache().seq_length());
  check(cache.is_written() || given, ErrorKind::kInvalidArgument,
        "there is nothing to decode from: give input_ids or input_features, or a cache that holds encoder states");
}

void check_source_kind(const Seq2SeqInput& input, const Seq2SeqModel& model) {
  const at::Tensor& x = input.input_features;
  const std::string& name = model.config().name;
  const auto features = model.features();
  check(features || !x.defined(), ErrorKind::kInvalidArgument,
        "{}: this model reads ids; give input_ids, not input_features", name);
  if (!features) return;
  check(!input.input_ids.defined(), ErrorKind::kInvalidArgument,
        "{}: this model reads features of sound; give input_features, not input_ids", name);
  if (!x.defined()) return;
  check(x.is_floating_point() && x.dim() == 3 && x.size(0) > 0 && x.size(1) == features->width &&
            x.size(2) == features->n_rows,
        ErrorKind::kInvalidArgument, "{}: input_features are {} [{}], the model reads floats [batch, {}, {}]", name,
        x.is_floating_point() ? "floats" : "integers", fmt::join(x.sizes(), ", "), features->width, features->n_rows);
  check(at::isfinite(x).all().item<bool>(), ErrorKind::kInvalidArgument,
        "{}: input_features hold something that is no finite number", name);
}

RaggedInput embedded_features(const Seq2SeqModel& model, const at::Tensor& input_features, ops::Workspace& workspace) {
  const Seq2SeqModel::Features shape = *model.features();
  const std::int64_t n = input_features.size(0), width = model.config().hidden_size;
  const at::Tensor rows = input_features.to(model.device(), at::kFloat).transpose(1, 2).contiguous();
  RaggedInput source;
  source.n_sequences = n, source.n_columns = shape.n_states;
  source.embeddings = at::empty({n * shape.n_states, width}, rows.options());
  model.embed_features(workspace, {static_cast<float*>(rows.data_ptr()), n * shape.n_rows, shape.width},
                       {static_cast<float*>(source.embeddings.data_ptr()), n * shape.n_states, width});
  for (std::int64_t i = 0; i <= n; ++i) source.row_starts.push_back(i * shape.n_states);
  return source;
}

at::Tensor forward(const Seq2SeqModel& model, const Seq2SeqInput& input, EncoderDecoderCache& cache) {
  const c10::InferenceMode inference;
  const Cache::Use use(cache.cross_attention_cache());
  check_source(input, cache);
  check_source_kind(input, model);
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
  if (!cache.is_written() && input.input_features.defined()) {
    source = embedded_features(model, input.input_features, cache.cross_attention_cache().workspace());
  } else if (!cache.is_written()) {
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
