#pragma once

#include "mneme/generate/options.h"

namespace mneme {

/// Calls visit(key, member) for each option that generation_config.json may hold: the one list of them. How a cache
/// holds a text is the caller's choice, not the model's, so keys about it are none of these.
template <class Visit>
void visit_option_keys(const Visit& visit) {
  using O = GenerateOptions;
  visit("max_new_tokens", &O::max_new_tokens);
  visit("min_new_tokens", &O::min_new_tokens);
  visit("max_length", &O::max_length);
  visit("min_length", &O::min_length);
  visit("max_time", &O::max_time);
  visit("stop_strings", &O::stop_strings);
  visit("do_sample", &O::do_sample);
  visit("num_beams", &O::num_beams);
  visit("num_return_sequences", &O::num_return_sequences);
  visit("length_penalty", &O::length_penalty);
  visit("early_stopping", &O::early_stopping);
  visit("temperature", &O::temperature);
  visit("top_k", &O::top_k);
  visit("top_p", &O::top_p);
  visit("min_p", &O::min_p);
  visit("top_h", &O::top_h);
  visit("typical_p", &O::typical_p);
  visit("epsilon_cutoff", &O::epsilon_cutoff);
  visit("eta_cutoff", &O::eta_cutoff);
  visit("repetition_penalty", &O::repetition_penalty);
  visit("encoder_repetition_penalty", &O::encoder_repetition_penalty);
  visit("no_repeat_ngram_size", &O::no_repeat_ngram_size);
  visit("encoder_no_repeat_ngram_size", &O::encoder_no_repeat_ngram_size);
  visit("bad_words_ids", &O::bad_words_ids);
  visit("sequence_bias", &O::sequence_bias);
  visit("forced_bos_token_id", &O::forced_bos_token_id);
  visit("forced_eos_token_id", &O::forced_eos_token_id);
  visit("suppress_tokens", &O::suppress_tokens);
  visit("begin_suppress_tokens", &O::begin_suppress_tokens);
  visit("exponential_decay_length_penalty", &O::exponential_decay_length_penalty);
  visit("renormalize_logits", &O::renormalize_logits);
  visit("remove_invalid_values", &O::remove_invalid_values);
  visit("guidance_scale", &O::guidance_scale);
  visit("watermarking_config", &O::watermarking_config);
  visit("prompt_lookup_num_tokens", &O::prompt_lookup_num_tokens);
  visit("max_matching_ngram_size", &O::max_matching_ngram_size);
  visit("num_assistant_tokens", &O::num_assistant_tokens);
  visit("assistant_confidence_threshold", &O::assistant_confidence_threshold);
  visit("disable_compile", &O::disable_compile);
  visit("eos_token_id", &O::eos_token_id);
  visit("pad_token_id", &O::pad_token_id);
  visit("decoder_start_token_id", &O::decoder_start_token_id);
  visit("language", &O::language);
  visit("task", &O::task);
}

}  // namespace mneme
