#include "mneme/generate/chat_session.h"

#include <algorithm>
#include <utility>

#include "mneme/base/error.h"
#include "mneme/generate/batch.h"
#include "mneme/generate/streamer.h"

namespace mneme {
namespace {

constexpr std::int64_t kRoomForAnAnswer = 16;  // tokens below which a context counts as full
constexpr std::int64_t kDefaultNewTokens = 1024;

bool is_system(const ChatMessage& message) { return message.role == "system"; }

/// The oldest turn: a user's message and all that follows until the next one. False if only the last one is left.
bool drop_oldest(std::vector<ChatMessage>& messages) {
  const auto is_user = [](const ChatMessage& m) { return m.role == "user"; };
  const auto first = std::find_if(messages.begin(), messages.end(), is_user);
  if (first == messages.end()) return false;
  const auto second = std::find_if(first + 1, messages.end(), is_user);
  if (second == messages.end()) return false;
  messages.erase(first, second);
  return true;
}

at::Tensor tensor_of(const std::vector<std::int64_t>& ids) {
  at::Tensor result = at::empty({1, std::ssize(ids)}, at::kLong);
  std::ranges::copy(ids, result.mutable_data_ptr<std::int64_t>());
  return result;
}

}  // namespace

ChatSession::ChatSession(std::shared_ptr<const CausalLM> model, std::shared_ptr<const TextTokenizer> tokenizer,
                         ChatOptions options)
    : model_(std::move(model)), tokenizer_(std::move(tokenizer)), options_(std::move(options)) {
  check(tokenizer_->has_chat_template(), ErrorKind::kInvalidArgument,
        "{} comes without a chat template; use generate() on texts of your own making", model_->config().name);
  check(options_.max_context.value_or(1) >= 1, ErrorKind::kInvalidArgument,
        "max_context is {}; a context holds one token or more", options_.max_context.value_or(1));
  check(options_.sink_tokens >= 0, ErrorKind::kInvalidArgument, "sink_tokens is {}; it cannot be below 0",
        options_.sink_tokens);
  check(options_.full_context != FullContext::kSlide || limit() >= 2, ErrorKind::kInvalidArgument,
        "a context of {} token cannot slide: one stays and one is written; give it more", limit());
  tree_ = std::make_shared<PrefixTree>(PrefixTreeOptions{.max_bytes = options_.max_cache_bytes});
}

void ChatSession::set_system_prompt(std::string text) {
  std::erase_if(now_.messages, is_system);
  if (!text.empty()) now_.messages.insert(now_.messages.begin(), {.role = "system", .content = std::move(text)});
}

std::int64_t ChatSession::limit() const {
  const std::int64_t positions = model_->config().max_position_embeddings;
  return std::min(positions, options_.max_context.value_or(positions));
}

std::string ChatSession::rendered(const std::vector<ChatMessage>& messages) const {
  return tokenizer_->apply_chat_template(messages, {.add_generation_prompt = true});
}

/// Where a text goes on from what was said and written, only the rest of it becomes ids.
std::vector<std::int64_t> ChatSession::ids_of(const std::string& text) const {
  const Tokenizer& tokenizer = tokenizer_->tokenizer();
  const EncodeOptions as_is{.add_special_tokens = false};  // the template has written its own
  if (now_.text.empty() || !text.starts_with(now_.text)) return tokenizer.encode(text, as_is);
  std::vector<std::int64_t> ids = now_.ids;
  const std::vector<std::int64_t> rest = tokenizer.encode(std::string_view(text).substr(now_.text.size()), as_is);
  ids.insert(ids.end(), rest.begin(), rest.end());
  return ids;
}

/// Models have rows for more ids than their tokenizers have tokens; those have no text.
std::string ChatSession::text_of(const std::vector<std::int64_t>& written) const {
  std::vector<std::int64_t> known = written;
  std::erase_if(known, [&](std::int64_t id) { return id >= tokenizer_->tokenizer().vocab_size(); });
  return tokenizer_->decode(known);
}

void ChatSession::remember(const std::vector<std::int64_t>& ids, const Cache& cache) {
  const auto n = static_cast<std::ptrdiff_t>(cache.seq_length());
  tree_->insert(std::span(ids).first(static_cast<std::size_t>(n)), cache);
}

/// All but the last token of a prompt: where a template rewrites the answer later, the cache goes back to here.
GenerateOutput ChatSession::read(const std::vector<std::int64_t>& ids, Cache& cache,
                                 const std::function<bool()>& cancelled) const {
  GenerateOptions options{.max_new_tokens = 0, .min_new_tokens = 0, .num_beams = 1, .num_return_sequences = 1};
  options.prefill_chunk_size = options_.generate.prefill_chunk_size;
  options.on_prefill = options_.generate.on_prefill;
  options.cancelled = cancelled;
  options.tokenizer_decode = [&](const std::vector<std::int64_t>& some) { return text_of(some); };
  return model_->generate(tensor_of({ids.begin(), ids.end() - 1}), options, &cache);
}

/// What will be read: everything so far and what is said now, without what the context has no room for.
ChatSession::State ChatSession::next_turn(const std::string& said, ChatReply& reply) const {
  const GenerateOptions& o = options_.generate;
  check(o.use_cache.value_or(true), ErrorKind::kInvalidArgument,
        "a chat keeps a cache; use_cache = false goes with generate() alone");
  check(o.num_return_sequences.value_or(1) == 1, ErrorKind::kInvalidArgument,
        "a chat has one answer, num_return_sequences = {} goes with generate() alone",
        o.num_return_sequences.value_or(1));
  const bool counts = o.json_constraint || o.forced_bos_token_id || o.forced_eos_token_id || o.begin_suppress_tokens ||
                      o.exponential_decay_length_penalty || o.guidance_scale.value_or(1) != 1;
  check(options_.full_context != FullContext::kSlide || !counts, ErrorKind::kInvalidArgument,
        "a context that slides begins an answer anew, so nothing that counts from its first token goes with it: JSON "
        "schemas, forced and suppressed tokens, exponential_decay_length_penalty, guidance_scale; choose another "
        "full_context");
  State next{.messages = now_.messages};
  next.messages.push_back({.role = "user", .content = said});
  const auto render = [&] {
    next.text = rendered(next.messages);
    next.ids = ids_of(next.text);
  };
  const std::int64_t most = limit();
  const auto is_full = [&] { return std::ssize(next.ids) + kRoomForAnAnswer > most; };
  render();
  while (is_full() && options_.full_context == FullContext::kDropOldest && drop_oldest(next.messages)) {
    render();
    ++reply.n_turns_dropped;
  }
  const bool slides = options_.full_context == FullContext::kSlide;
  if (slides && is_full()) slide(next.ids, reply);
  check(slides || !is_full(), ErrorKind::kFailedPrecondition,
        "the conversation has {} tokens and its context holds {}, {} of them for an answer; take turns back "
        "(/undo), or let old ones go (--full-context drop-oldest or slide)",
        next.ids.size(), most, kRoomForAnAnswer);
  return next;
}

std::int64_t ChatSession::n_sinks() const { return std::min(options_.sink_tokens, limit() / 2); }

/// Half of the rest of the context.
std::int64_t ChatSession::n_newest() const { return (limit() - n_sinks()) / 2; }

/// The first tokens stay, and the newest.
void ChatSession::slide(std::vector<std::int64_t>& ids, ChatReply& reply) const {
  const std::int64_t n_gone = std::ssize(ids) - n_sinks() - n_newest();
  if (n_gone <= 0) return;
  ids.erase(ids.begin() + n_sinks(), ids.begin() + n_sinks() + n_gone);
  reply.n_tokens_dropped += n_gone;
}

/// A cache of all ids but the last: what was computed before is found, the rest is read. Null if it was cancelled.
std::shared_ptr<Cache> ChatSession::cache_of(const std::vector<std::int64_t>& ids, const GenerateOptions& options,
                                             ChatReply& reply) {
  std::optional<PrefixTree::Hit> hit = tree_->find(ids);
  GenerateOptions making = options;
  const bool is_static = making.cache_implementation.value_or("").ends_with("static");
  if (is_static && !making.max_cache_len) making.max_cache_len = limit();  // later turns go on in it
  const GenerationSettings settings = resolve(making, model_->generation_config(), std::ssize(ids), 1);
  const auto cache = std::make_shared<Cache>(hit ? std::move(hit->cache) : make_cache(model_->config(), settings));
  if (reply.prompt_tokens == 0) {  // not an answer that goes on
    reply.prompt_tokens = std::ssize(ids);
    reply.cached_tokens = cache->seq_length();
  }
  if (cache->seq_length() + 1 >= std::ssize(ids)) return cache;
  const GenerateOutput prompt = read(ids, *cache, options.cancelled);
  reply.prefill_ms += prompt.prefill_ms;
  remember(ids, *cache);
  return prompt.finish_reasons[0] == "cancelled" ? nullptr : cache;
}

/// What an answer to so many tokens may have.
std::int64_t ChatSession::most_new_tokens(std::int64_t n_said) const {
  const GenerateOptions& o = options_.generate;
  if (o.max_new_tokens) return *o.max_new_tokens;
  if (o.max_length) return std::max<std::int64_t>(1, *o.max_length - n_said);
  return model_->generation_config().max_new_tokens.value_or(kDefaultNewTokens);
}

/// Writes behind the ids as much as the options say, and `next` becomes what is then known. Nothing if it was cancelled
/// before the first token.
std::optional<GenerateOutput> ChatSession::write_part(State& next, std::vector<std::int64_t>& ids,
                                                      const GenerateOptions& options, ChatReply& reply) {
  const std::shared_ptr<Cache> cache = cache_of(ids, options, reply);
  if (!cache) return std::nullopt;
  GenerateOptions writing = options;
  writing.cache_implementation.reset();  // the cache is made
  writing.max_cache_len.reset();
  writing.cache_config = {};
  writing.num_return_sequences = 1;  // whatever the model's own file says
  GenerateOutput output = model_->generate(tensor_of(ids), writing, cache.get());
  ids.insert(ids.end(), output.new_tokens[0].begin(), output.new_tokens[0].end());
  next.ids = ids;
  next.cache = cache;
  remember(ids, *cache);
  reply.prefill_ms += output.prefill_ms;
  reply.decode_ms += output.decode_ms;
  reply.finish_reason = output.finish_reasons[0];
  return output;
}

/// What is left to the next part of an answer. False if that is nothing.
bool ChatSession::goes_on(GenerateOptions& options, const GenerateOutput& part, ChatReply& reply) const {
  if (options_.full_context != FullContext::kSlide || reply.finish_reason != "length") return false;
  if (options.max_time) {
    *options.max_time -= (part.prefill_ms + part.decode_ms) / 1e3;
    if (*options.max_time <= 0) reply.finish_reason = "time";
  }
  const std::int64_t n_written = std::ssize(part.new_tokens[0]);
  if (options.min_new_tokens) *options.min_new_tokens -= std::min(*options.min_new_tokens, n_written);
  options.seed = part.seed + 1;  // other draws than those of the part before
  return reply.finish_reason == "length";
}

/// Writes an answer behind next.ids. Where the context fills up on the way, it slides and the answer goes on.
void ChatSession::answer(State& next, const std::function<void(std::string_view)>& write,
                         const std::function<bool()>& cancelled, ChatReply& reply) {
  TextStreamer streamer(tokenizer_->tokenizer(), [&](std::string_view piece) {
    reply.text += piece;
    if (write) write(piece);
  });
  GenerateOptions options = options_.generate;
  options.cancelled = cancelled;
  options.on_token = streamer.callback();
  options.tokenizer_decode = [&](const std::vector<std::int64_t>& some) { return text_of(some); };
  std::vector<std::int64_t> ids = next.ids, written;
  const std::int64_t most = most_new_tokens(std::ssize(ids));
  while (true) {
    options.max_new_tokens = std::min(most - std::ssize(written), limit() - std::ssize(ids));
    const std::optional<GenerateOutput> part = write_part(next, ids, options, reply);
    check(part || !written.empty(), ErrorKind::kFailedPrecondition,
          "cancelled before the first token of an answer; what was read is kept");
    if (!part) {
      reply.finish_reason = "cancelled";
      break;
    }
    written.insert(written.end(), part->new_tokens[0].begin(), part->new_tokens[0].end());
    if (std::ssize(written) >= most || !goes_on(options, *part, reply)) break;
    slide(ids, reply);
  }
  streamer.end();
  next.text += text_of(written);
  reply.new_tokens = std::ssize(written);
}

ChatReply ChatSession::say(const std::string& said, const std::function<void(std::string_view)>& write,
                           const std::function<bool()>& cancelled) {
  ChatReply reply;
  State next = next_turn(said, reply);
  answer(next, write, cancelled, reply);
  next.messages.push_back({.role = "assistant", .content = reply.text});
  before_.push_back(std::exchange(now_, std::move(next)));
  return reply;
}

bool ChatSession::undo() {
  if (before_.empty()) return false;
  const auto system = std::ranges::find_if(now_.messages, is_system);
  std::string told = system == now_.messages.end() ? "" : system->content;
  now_ = std::move(before_.back());
  before_.pop_back();
  set_system_prompt(std::move(told));  // no part of the turn
  return true;
}

}  // namespace mneme
