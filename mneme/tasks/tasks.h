#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "mneme/base/json.h"
#include "mneme/base/log.h"
#include "mneme/generate/config.h"

/// What the program does with a model: requests in, JSON out, nothing printed. Requests are plain values without ATen,
/// so that flags are parsed and help is shown before LibTorch is loaded.
namespace mneme::tasks {

/// A model, and how to hold it.
struct ModelRequest {
  std::string path;            ///< a folder as save_pretrained writes it, or a .gguf file
  std::string dtype = "auto";  ///< auto (as stored) | int8 (linear layers) | float32 | bfloat16 | float16
  std::string device = "cpu";  ///< cpu | cuda
  std::optional<int> threads;  ///< unset: one for each core that the process may use
};

/// One sequence: text, or ids as they are.
using Prompt = std::variant<std::string, std::vector<std::int64_t>>;

struct GenerateRequest {
  ModelRequest model;
  std::vector<Prompt> prompts;     ///< of an encoder-decoder: what its encoder reads
  std::vector<std::string> audio;  ///< speech models, instead of prompts: paths of WAV files, one a sequence
  /// Encoder-decoders: what the decoder starts from, one for each prompt or one for all; none: decoder_start_token_id.
  std::vector<std::vector<std::int64_t>> decoder_prompts;
  bool chat = false;         ///< each text is a user message through the model's chat template
  GenerateOptions options;   ///< without its callbacks; output_logits adds "last_logits" and "min_gap" to the result
  std::string cache_config;  ///< JSON of CacheConfig, or empty
  std::string generation_config;  ///< JSON of more options by their keys, or empty
  std::string assistant_model;    ///< a path as model.path, or empty
  std::string json_schema;        ///< texts are JSON that obeys it, or empty
  /// A file that keeps the cache of prompt and answer for the next call (one prompt, one continuation), or empty: what
  /// it holds of the prompt is not computed again.
  std::string prompt_cache;
};

/// What happens on the way. Called on the thread that runs the task; an exception ends the task and passes through.
struct GenerateEvents {
  std::function<void()> on_loaded;
  std::function<void(std::int64_t done, std::int64_t total)> on_prefill;  ///< tokens of the prompts, as they are read
  std::function<void(std::int64_t sequence, std::string_view text)> on_text;  ///< whole characters, as they come
  TokenCallback on_token;                                                     ///< each new token
  std::function<bool()> cancelled;                                            ///< true ends after the current token
};

/// Mean negative log likelihood of a text, teacher-forced one token at a time after a prefill.
struct NllRequest {
  ModelRequest model;
  Prompt text;
  std::int64_t prefill = 1;  ///< tokens
  GenerateOptions cache;     ///< use_cache, cache_implementation, max_cache_len, prefill_chunk_size
  std::string cache_config;  ///< JSON of CacheConfig, or empty
};

/// How fast a model is, with any cache: random ids, greedy, never ended by an eos.
struct BenchRequest {
  ModelRequest model;
  GenerateOptions cache;  ///< as in NllRequest
  std::string cache_config;
  std::vector<std::int64_t> depths = {0, 512};  ///< tokens that a sequence holds before the first step
  std::vector<std::int64_t> batch_sizes = {1};
  std::int64_t new_tokens = 32;  ///< of one round; the first is the prompt's
  std::int64_t repeat = 5;       ///< rounds, of which the medians count; long prompts are read fewer times
};

/// As GenerateEvents.
struct BenchEvents {
  /// Prompts of `batch` sequences are being read: tokens done, of how many.
  std::function<void(std::int64_t batch, std::int64_t depth, std::int64_t done, std::int64_t total)> on_progress;
  std::function<void(const Json& line)> on_line;  ///< one of "results", as it comes
  std::function<bool()> cancelled;                ///< true ends with what there is
};

struct InspectRequest {
  ModelRequest model;
  GenerateOptions cache;  ///< as in NllRequest: the cache whose plan is shown
  std::string cache_config;
  std::optional<std::int64_t> length;  ///< tokens that memory is estimated for; unset: max_position_embeddings
  std::int64_t batch_size = 1;         ///< and sequences
};

struct ChatRequest {
  ModelRequest model;
  GenerateOptions options;        ///< without its callbacks
  std::string cache_config;       ///< JSON of CacheConfig, or empty
  std::string generation_config;  ///< as in GenerateRequest
  std::string system_prompt;
  std::optional<std::int64_t> max_context;  ///< tokens of all turns
  std::string json_schema;                  ///< as in GenerateRequest
  std::string full_context = "refuse";      ///< or "drop-oldest" turns, or "slide" (FullContext)
  std::int64_t sink_tokens = 4;             ///< of a context that slides
};

/// Conversations with one model, each with a name; the first one is "main". All throw Error.
class Chat {
 public:
  virtual ~Chat() = default;
  /// {"text", "finish_reason", "turns_dropped", "usage": {"prompt_tokens", "cached_tokens", "new_tokens"},
  ///  "timing": {"prefill_ms", "decode_ms", "decode_tokens_per_s"}, "cache": {"length", "bytes", "bytes_offloaded"}}
  virtual Json say(const std::string& text, const GenerateEvents& events) = 0;
  virtual void set_system_prompt(const std::string& text) = 0;
  virtual bool undo() = 0;                         ///< false: nothing was said yet
  virtual void fork(const std::string& name) = 0;  ///< goes on in a new conversation that begins like this one
  virtual void switch_to(const std::string& name) = 0;
  virtual std::vector<std::string> names() const = 0;    ///< the one that goes on first
  virtual bool save(const std::string& path) const = 0;  ///< false: there is no cache yet, so none was written
  virtual void load(const std::string& path) = 0;
  /// One option by its key in generation_config.json.
  virtual void set(const std::string& key, const Json& value) = 0;
  /// The blocks of the cache as text.
  virtual std::string drawing() const = 0;
};

/// The tasks by name, as libmneme-tasks.so offers them. All throw Error.
struct Tasks {
  /// The object of `mneme generate --json`. "texts" are null where the model comes without a tokenizer.
  Json (*generate)(const GenerateRequest& request, const GenerateEvents& events);
  /// {"nll": nats a token, "tokens": how many}
  Json (*nll)(const NllRequest& request);
  /// The object of `mneme bench --json`.
  Json (*bench)(const BenchRequest& request, const BenchEvents& events);
  /// The object of `mneme inspect --json`. Reads headers only.
  Json (*inspect)(const InspectRequest& request);
  std::unique_ptr<Chat> (*open_chat)(const ChatRequest& request);
  /// set_warning_handler of the library's own copy of base/log.h.
  void (*set_warning_handler)(WarningHandler handler);
};

}  // namespace mneme::tasks

/// The one symbol that libmneme-tasks.so is opened for.
extern "C" const mneme::tasks::Tasks& mneme_tasks();
