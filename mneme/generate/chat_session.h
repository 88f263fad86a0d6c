#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mneme/cache/prefix_tree.h"
#include "mneme/generate/auto_tokenizer.h"
#include "mneme/generate/causal_lm.h"

namespace mneme {

/// What a chat does when the next turn does not fit.
enum class FullContext {
  kRefuse,      ///< an error with both numbers; nothing changes
  kDropOldest,  ///< the oldest turns go, system messages stay; what follows them is computed again
  /// The first `sink_tokens` and the newest tokens stay, in the middle of a turn or an answer too: half of the room for
  /// the newest is given up at a time, so that for each new token at most one is computed again, at the speed of a
  /// prompt. Positions are counted anew: the text goes on as from a cold run over what stays. (Which tokens: Xiao et
  /// al. 2023, arXiv:2309.17453; computing them again keeps nothing of those that are gone.)
  kSlide
};

struct ChatOptions {
  GenerateOptions generate = {};  ///< cache kind, sampling and so on; without callbacks
  std::optional<std::int64_t> max_context =
      {};  ///< tokens of all turns together; the model's positions are a limit anyway
  FullContext full_context = FullContext::kRefuse;
  std::int64_t sink_tokens = 4;  ///< kSlide: first tokens that stay; at most half of the context
  std::int64_t max_cache_bytes = std::int64_t{4} << 30;  ///< of the turns that are kept to go back to
};

/// An answer, and what it cost.
struct ChatReply {
  std::string text;
  std::string finish_reason;
  std::int64_t prompt_tokens = 0, cached_tokens = 0, new_tokens = 0;  ///< prompt: all turns; cached: not computed again
  std::int64_t n_turns_dropped = 0, n_tokens_dropped = 0;             ///< kDropOldest; kSlide
  double prefill_ms = 0, decode_ms = 0;
};

/// A conversation that computes no token twice. Every turn is found again by its ids: the cache of the longest
/// beginning that was computed before is taken, whether a turn goes on, was taken back or is said differently, whether
/// a template drops or rewrites earlier text; and what is found equals a cold run (PrefixTree). An answer keeps the ids
/// that the model wrote, even where a tokenizer would write its text with others.
class ChatSession {
 public:
  /// Model and tokenizer are shared. Throws Error(kInvalidArgument) for a tokenizer without a chat template, a context
  /// below one token, or two that slide, or a negative number of sinks.
  ChatSession(std::shared_ptr<const CausalLM> model, std::shared_ptr<const TextTokenizer> tokenizer,
              ChatOptions options = {});

  /// Replaces the system message; an empty text takes it away. Earlier turns stay and are computed again when needed.
  void set_system_prompt(std::string text);

  /// Says something and gets an answer, whose text goes to `write` in whole characters as it comes. `cancelled` is
  /// polled as in GenerateOptions; what was written until then is kept. Where it throws, nothing was said.
  /// Throws Error(kInvalidArgument) with the template's words, Error(kFailedPrecondition) for a full context.
  ChatReply say(const std::string& text, const std::function<void(std::string_view)>& write = {},
                const std::function<bool()>& cancelled = {});

  /// Takes back the last turn: as if it had never been said. The system prompt stays. False if there is none.
  bool undo();
  /// Another conversation that begins like this one and shares what is cached.
  ChatSession fork() const { return *this; }

  const std::vector<ChatMessage>& messages() const noexcept { return now_.messages; }
  GenerateOptions& options() noexcept { return options_.generate; }
  /// Ids of everything so far that the context still holds, as the cache holds them (but for the last one, or for an
  /// answer of beams), and that cache: null before the first turn, and behind a load() that left it out. None of both
  /// where undo() goes back behind a load(): they are found again with the next turn.
  const std::vector<std::int64_t>& ids() const noexcept { return now_.ids; }
  const Cache* cache() const noexcept { return now_.cache.get(); }

  /// Writes messages and ids to `path`, and the cache, if there is one yet, to `path`.safetensors; each appears when it
  /// is whole. False where there was no cache. Throws Error(kIo).
  bool save(const std::string& path) const;
  /// Becomes what was saved. A cache that is gone, damaged, of another text or model, or of another kind than the
  /// options name, is left out with a warning: what the conversation holds is then computed again with the next turn.
  /// Throws Error(kIo), Error(kCorruptData) for the conversation itself; nothing changes then.
  void load(const std::string& path);

 private:
  /// A conversation after some turn.
  struct State {
    std::vector<ChatMessage> messages = {};
    std::vector<std::int64_t> ids = {};       // of all that was read and written and has not slid away
    std::string text = {};                    // all of it as text: what the template wrote and the model said
    std::shared_ptr<const Cache> cache = {};  // of ids, all but the last; null before the first turn
  };

  std::vector<std::int64_t> ids_of(const std::string& text) const;
  std::string rendered(const std::vector<ChatMessage>& messages) const;
  std::string text_of(const std::vector<std::int64_t>& written) const;
  std::int64_t limit() const;
  State next_turn(const std::string& said, ChatReply& reply) const;
  std::int64_t n_sinks() const;
  std::int64_t n_newest() const;
  void slide(std::vector<std::int64_t>& ids, ChatReply& reply) const;
  std::vector<std::array<std::size_t, 2>> beginnings() const;
  static std::vector<State> turns_of(const State& whole, std::span<const std::array<std::size_t, 2>> beginnings);
  std::shared_ptr<Cache> saved_cache(const std::string& path, const std::vector<std::int64_t>& ids) const;
  void remember(const std::vector<std::int64_t>& ids, const Cache& cache);
  std::shared_ptr<Cache> cache_of(const std::vector<std::int64_t>& ids, const GenerateOptions& options,
                                  ChatReply& reply);
  GenerateOutput read(const std::vector<std::int64_t>& ids, Cache& cache, const std::function<bool()>& cancelled) const;
  std::int64_t most_new_tokens(std::int64_t n_said) const;
  std::optional<GenerateOutput> write_part(State& next, std::vector<std::int64_t>& ids, const GenerateOptions& options,
                                           ChatReply& reply);
  bool goes_on(GenerateOptions& options, const GenerateOutput& part, ChatReply& reply) const;
  void answer(State& next, const std::function<void(std::string_view)>& write, const std::function<bool()>& cancelled,
              ChatReply& reply);

  std::shared_ptr<const CausalLM> model_;
  std::shared_ptr<const TextTokenizer> tokenizer_;
  std::shared_ptr<PrefixTree> tree_;  // shared by forks
  ChatOptions options_;
  State now_;
  std::vector<State> before_;  // each turn
};

}  // namespace mneme
