#include "mneme/models/bart_model.h"

#include "mneme/base/error.h"
#include "mneme/models/architectures.h"

namespace mneme {

std::unique_ptr<Seq2SeqModel> build_bart(const ModelConfig& c, const Weights& weights, DType dtype, at::Device device) {
  return std::make_unique<Bart>(c, Loader{weights, dtype, device}, BartOptions{});
}

std::unique_ptr<Seq2SeqModel> build_marian(const ModelConfig& c, const Weights& weights, DType dtype,
                                           at::Device device) {
  check(json_bool(c.raw, "share_encoder_decoder_embeddings", true, c.name), ErrorKind::kUnsupported,
        "{}: vocabularies of their own for encoder and decoder are not supported", c.name);
  return std::make_unique<Bart>(c, Loader{weights, dtype, device},
                                BartOptions{.embedding_norm = false, .sinusoids = true, .spare_positions = false});
}

std::unique_ptr<Seq2SeqModel> build_mbart(const ModelConfig& c, const Weights& weights, DType dtype,
                                          at::Device device) {
  return std::make_unique<Bart>(c, Loader{weights, dtype, device}, BartOptions{.norm_first = true});
}

}  // namespace mneme
