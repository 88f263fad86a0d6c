#pragma once

/// Everything that a program needs to generate text and to work with caches, under one header.
///
///   AutoModelForCausalLM, AutoTokenizer    load a model, and its tokenizer with its chat template
///   AutoModelForSeq2SeqLM                  the same for encoder-decoders
///   AutoFeatureExtractor, read_wav         what a speech model hears of a sound
///   CausalLM::generate, ::forward          whole texts, or one pass at a time
///   GenerateOptions                        the keys of generation_config.json
///   DynamicCache, StaticCache, QuantizedCache, Cache, EncoderDecoderCache
///                                          what a model remembers: copy, crop, reorder, update, save, load
///   PrefixTree                             caches by the ids that they hold
///   ChatSession                            a conversation that computes no token twice
///   keep_common_prefix                     makes a cache ready for another text
///   save_cache, load_cache                 a cache of one text in a file, for the model that made it
///   TextStreamer, TextIteratorStreamer     text as it comes, on the same thread or another
///   CancellationToken                      ends a call from another thread
///   ThreadPool, Error, set_warning_handler the process's threads; what is thrown; what is only worth a word

#include <string_view>

#include "mneme/audio/wav.h"
#include "mneme/base/error.h"
#include "mneme/base/log.h"
#include "mneme/base/thread_pool.h"
#include "mneme/cache/cache.h"
#include "mneme/cache/encoder_decoder_cache.h"
#include "mneme/cache/prefix_tree.h"
#include "mneme/cache/presets.h"
#include "mneme/generate/auto_feature_extractor.h"
#include "mneme/generate/auto_tokenizer.h"
#include "mneme/generate/cancellation_token.h"
#include "mneme/generate/causal_lm.h"
#include "mneme/generate/chat_session.h"
#include "mneme/generate/common_prefix.h"
#include "mneme/generate/json_constraint.h"
#include "mneme/generate/memory_estimate.h"
#include "mneme/generate/saved_cache.h"
#include "mneme/generate/seq2seq_lm.h"
#include "mneme/generate/streamer.h"
#include "mneme/generate/text_iterator_streamer.h"

namespace mneme {

/// The version of the library, "major.minor.patch".
std::string_view version() noexcept;

}  // namespace mneme
