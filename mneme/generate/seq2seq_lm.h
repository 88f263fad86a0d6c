#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <string>

#include "mneme/base/error.h"
#include "mneme/cache/encoder_decoder_cache.h"
#include "mneme/generate/auto_tokenizer.h"
#include "mneme/generate/config.h"
#include "mneme/generate/output.h"
#include "mneme/generate/pretrained.h"
#include "mneme/generate/speech_prompt.h"
#include "mneme/models/seq2seq_forward.h"

namespace mneme {

/// The config of a loaded encoder-decoder: caches of the decoder are made from it, those of cross-attention from
/// cross_cache_shape.
struct LoadedSeq2SeqConfig : LoadedConfig {
  CacheShape cross_cache_shape;
};

/// An encoder-decoder ready to generate. Constant after loading: threads may share it, each with its own cache.
class Seq2SeqLM {
 public:
  Seq2SeqLM(std::unique_ptr<const Seq2SeqModel> model, GenerationConfig generation_config);

  const LoadedSeq2SeqConfig& config() const noexcept { return config_; }
  const GenerationConfig& generation_config() const noexcept { return generation_config_; }
  const Seq2SeqModel& model() const noexcept { return *model_; }
  at::Device device() const noexcept { return model_->device(); }

  /// A cache that grows, for both parts: EncoderDecoderCache(DynamicCache(config()), DynamicCache(cross_cache_shape)).
  EncoderDecoderCache dynamic_cache() const;

  /// Encodes the source unless the cache holds one, and runs the decoder over its new tokens; without a cache, over all
  /// of them. See Seq2SeqInput. Runs in inference mode.
  ForwardOutput forward(const Seq2SeqInput& input, EncoderDecoderCache* cache = nullptr) const;

  /// Decodes a source. The sequences are the decoder's: decoder_input_ids, or decoder_start_token_id where none are
  /// given (of a speech model what speech_prompt makes of language and task), then the new tokens. With a cache that
  /// holds encoder states the source is left out, and decoder_input_ids are the whole texts: what the cache already
  /// holds of them is not computed again. Throws Error(kInvalidArgument) for input or options that cannot be, before
  /// the encoder runs unless a language is to be heard; the cache is then as it was.
  GenerateOutput generate(const Seq2SeqInput& input, const GenerateOptions& options = {},
                          EncoderDecoderCache* cache = nullptr) const;
  GenerateOutput generate(const EncodedInputs& source, const GenerateOptions& options = {},
                          EncoderDecoderCache* cache = nullptr) const {
    check(!source.inputs_embeds.defined() && !source.position_ids.defined(), ErrorKind::kUnsupported,
          "{} is an encoder-decoder, which reads input_ids at positions of its own; inputs_embeds and position_ids are "
          "for causal models",
          config_.name);
    return generate(Seq2SeqInput{.input_ids = source.input_ids, .attention_mask = source.attention_mask}, options,
                    cache);
  }
  GenerateOutput generate(const at::Tensor& input_ids, const GenerateOptions& options = {},
                          EncoderDecoderCache* cache = nullptr) const {
    return generate(Seq2SeqInput{.input_ids = input_ids}, options, cache);
  }

 private:
  std::int64_t decoder_start(const GenerateOptions& options) const;
  std::vector<std::int64_t> heard_languages(const SpeechPrompt& prompt, const Cache& cross) const;

  std::unique_ptr<const Seq2SeqModel> model_;
  LoadedSeq2SeqConfig config_;
  GenerationConfig generation_config_;
};

/// Loads encoder-decoders under the name that users of transformers know.
struct AutoModelForSeq2SeqLM {
  /// A folder as save_pretrained writes it. Throws Error(kIo / kCorruptData / kUnsupported).
  static std::shared_ptr<const Seq2SeqLM> from_pretrained(const std::string& path, const LoadOptions& options = {});
};

}  // namespace mneme
