#include "mneme/generate/chat_session.h"

#include <algorithm>
#include <utility>

#include "mneme/base/draft_file.h"
#include "mneme/base/error.h"
#include "mneme/base/json.h"
#include "mneme/base/log.h"
#include "mneme/generate/batch.h"
#include "mneme/generate/saved_cache.h"
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

std::string cache_path(const std::string& path) { return path + ".safetensors"; }

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
  if (is_full() && options_.full_context == FullContext::kSlide) slide(next.ids, reply);
  check(!is_full(), ErrorKind::kFailedPrecondition,
        "the conversation has {} tokens and its context holds {}, {} of them for an answer; take turns back "
        "(/undo), or let old ones go (--full-context drop-oldest or slide)",
        next.ids.size(), most, kRoomForAnAnswer);
  return next;
}

/// The first tokens stay, and as many of the newest as fill half of the rest of the context.
void ChatSession::slide(std::vector<std::int64_t>& ids, ChatReply& reply) const {
  const std::int64_t sinks = std::min(options_.sink_tokens, limit() / 2), newest = (limit() - sinks) / 2;
  const std::int64_t n_gone = std::ssize(ids) - sinks - newest;
  if (n_gone <= 0) return;
  ids.erase(ids.begin() + sinks, ids.begin() + sinks + n_gone);
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

/// Writes an answer behind next.ids. Where the context fills up on the way, it slides and the answer goes on.
void ChatSession::answer(State& next, const std::function<void(std::string_view)>& write,
                         const std::function<bool()>& cancelled, ChatReply& reply) {
  GenerateOptions options = options_.generate;
  std::int64_t n_left = options.max_length ? std::max<std::int64_t>(1, *options.max_length - std::ssize(next.ids))
                                           : model_->generation_config().max_new_tokens.value_or(kDefaultNewTokens);
  n_left = options.max_new_tokens.value_or(n_left);
  options.cancelled = cancelled;
  std::vector<std::int64_t> written, ids = next.ids;
  std::int64_t n_of_part = 0;
  // A stop string may begin before the context slid: the first tokens of a part are shown with the last ones before.
  options.tokenizer_decode = [&](const std::vector<std::int64_t>& some) {
    if (std::ssize(some) != n_of_part || written.empty()) return text_of(some);
    std::vector<std::int64_t> all(written.end() - std::min<std::ptrdiff_t>(64, std::ssize(written)), written.end());
    all.insert(all.end(), some.begin(), some.end());
    return text_of(all);
  };
  TextStreamer streamer(tokenizer_->tokenizer(), [&](std::string_view piece) {
    reply.text += piece;
    if (write) write(piece);
  });
  while (true) {
    options.max_new_tokens = std::min(n_left, limit() - std::ssize(ids));
    const std::shared_ptr<Cache> cache = cache_of(ids, options, reply);
    if (!cache) {
      check(!written.empty(), ErrorKind::kFailedPrecondition,
            "cancelled before the first token of an answer; what was read is kept");
      reply.finish_reason = "cancelled";
      break;
    }
    GenerateOptions part = options;
    part.cache_implementation.reset();  // the cache is made
    part.max_cache_len.reset();
    part.cache_config = {};
    n_of_part = 0;
    part.on_token = [&, stream = streamer.callback()](std::int64_t sequence, std::int64_t id) {
      ++n_of_part;
      stream(sequence, id);
    };
    const GenerateOutput output = model_->generate(tensor_of(ids), part, cache.get());
    const std::vector<std::int64_t>& added = output.new_tokens[0];
    ids.insert(ids.end(), added.begin(), added.end());
    written.insert(written.end(), added.begin(), added.end());
    n_left -= std::ssize(added);
    next.ids = ids;
    next.cache = cache;
    remember(ids, *cache);
    reply.prefill_ms += output.prefill_ms;
    reply.decode_ms += output.decode_ms;
    reply.finish_reason = output.finish_reasons[0];
    if (options_.full_context != FullContext::kSlide || reply.finish_reason != "length" || n_left <= 0) break;
    if (options.max_time) {
      *options.max_time -= (output.prefill_ms + output.decode_ms) / 1e3;
      if (*options.max_time <= 0) {
        reply.finish_reason = "time";
        break;
      }
    }
    slide(ids, reply);
    options.seed = output.seed + 1;  // other draws than those of the part before
    if (options.min_new_tokens) *options.min_new_tokens -= std::min(*options.min_new_tokens, std::ssize(added));
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

void ChatSession::save(const std::string& path) const {
  if (now_.cache) save_cache(cache_path(path), *now_.cache, now_.ids, *model_);
  Json messages = Json::array();
  for (const ChatMessage& m : now_.messages) messages.push_back({{"role", m.role}, {"content", m.content}});
  DraftFile draft(path);
  const Json json{{"messages", messages}, {"ids", now_.ids}, {"text", now_.text}};
  draft.write(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  draft.publish();
}

/// The cache of these ids, all but the last.
std::shared_ptr<Cache> ChatSession::saved_cache(const std::string& path, const std::vector<std::int64_t>& ids) const {
  SavedCache saved = load_cache(path, *model_, options_.generate);
  check(std::ranges::equal(saved.ids, std::span(ids).first(ids.size() - 1)), ErrorKind::kInvalidArgument,
        "{}: holds another text than the conversation's", path);
  return std::make_shared<Cache>(std::move(saved.cache));
}

void ChatSession::load(const std::string& path) {
  const Json json = read_json_file(path);
  std::vector<ChatMessage> messages;
  std::vector<std::int64_t> ids;
  std::string text;
  try {
    for (const Json& m : json.at("messages"))
      messages.push_back({.role = m.at("role").get<std::string>(), .content = m.at("content").get<std::string>()});
    ids = json.at("ids").get<std::vector<std::int64_t>>();
    text = json.at("text").get<std::string>();
  } catch (const Json::exception&) {
    throw Error(ErrorKind::kCorruptData, "{}: is no saved conversation", path);
  }
  for (const std::int64_t id : ids) {
    check(id >= 0 && id < model_->config().vocab_size, ErrorKind::kCorruptData, "{}: holds the token id {}", path, id);
  }
  std::shared_ptr<Cache> cache;
  if (!ids.empty()) {
    try {
      cache = saved_cache(cache_path(path), ids);
      remember(ids, *cache);
    } catch (const Error& error) {
      warn(fmt::format("{}; what the conversation holds is computed again", error.what()));
    }
  }
  now_ = {.messages = std::move(messages), .ids = std::move(ids), .text = std::move(text), .cache = std::move(cache)};
  before_.clear();
}

}  // namespace mneme
