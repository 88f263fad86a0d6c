#include "mneme/generate/chat_session.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "mneme/base/error.h"
#include "mneme/base/json.h"
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

std::string cache_path(const std::string& path) { return path + ".safetensors"; }

}  // namespace

ChatSession::ChatSession(std::shared_ptr<const CausalLM> model, std::shared_ptr<const TextTokenizer> tokenizer,
                         ChatOptions options)
    : model_(std::move(model)), tokenizer_(std::move(tokenizer)), options_(std::move(options)) {
  check(tokenizer_->has_chat_template(), ErrorKind::kInvalidArgument,
        "{} comes without a chat template; use generate() on texts of your own making", model_->config().name);
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

ChatReply ChatSession::say(const std::string& said, const std::function<void(std::string_view)>& write,
                           const std::function<bool()>& cancelled) {
  ChatReply reply;
  State next{.messages = now_.messages};
  next.messages.push_back({.role = "user", .content = said});
  next.text = rendered(next.messages);
  next.ids = ids_of(next.text);
  const std::int64_t most = limit();
  while (std::ssize(next.ids) + kRoomForAnAnswer > most && options_.full_context == FullContext::kDropOldest &&
         drop_oldest(next.messages)) {
    next.text = rendered(next.messages);
    next.ids = ids_of(next.text);
    ++reply.n_turns_dropped;
  }
  check(
      std::ssize(next.ids) + kRoomForAnAnswer <= most, ErrorKind::kFailedPrecondition,
      "the conversation has {} tokens and its context holds {}, {} of them for an answer; take turns back, or let the "
      "oldest be dropped",
      next.ids.size(), most, kRoomForAnAnswer);

  GenerateOptions options = options_.generate;
  const GenerationConfig& of_model = model_->generation_config();
  if (!options.max_new_tokens) options.max_new_tokens = of_model.max_new_tokens.value_or(kDefaultNewTokens);
  options.max_new_tokens = std::min(*options.max_new_tokens, most - std::ssize(next.ids));
  options.cancelled = cancelled;
  options.tokenizer_decode = [&](const std::vector<std::int64_t>& some) { return text_of(some); };

  std::optional<PrefixTree::Hit> hit = tree_->find(next.ids);
  const GenerationSettings settings = resolve(options, of_model, std::ssize(next.ids), 1);
  const auto cache = std::make_shared<Cache>(hit ? std::move(hit->cache) : make_cache(model_->config(), settings));
  reply.prompt_tokens = std::ssize(next.ids);
  reply.cached_tokens = cache->seq_length();
  if (cache->seq_length() + 1 < std::ssize(next.ids)) {
    const GenerateOutput prompt = read(next.ids, *cache, cancelled);
    reply.prefill_ms = prompt.prefill_ms;
    remember(next.ids, *cache);
    check(prompt.finish_reasons[0] != "cancelled", ErrorKind::kFailedPrecondition,
          "cancelled before the first token of an answer; what was read is kept");
  }

  options.cache_implementation.reset();  // the cache is made
  options.max_cache_len.reset();
  options.cache_config = {};
  TextStreamer streamer(tokenizer_->tokenizer(), [&](std::string_view piece) {
    reply.text += piece;
    if (write) write(piece);
  });
  options.on_token = streamer.callback();
  const GenerateOutput output = model_->generate(tensor_of(next.ids), options, cache.get());
  streamer.end();

  const std::vector<std::int64_t>& written = output.new_tokens[0];
  next.ids.insert(next.ids.end(), written.begin(), written.end());
  next.text += text_of(written);
  next.messages.push_back({.role = "assistant", .content = reply.text});
  next.cache = cache;
  remember(next.ids, *cache);
  before_.push_back(std::exchange(now_, std::move(next)));
  reply.finish_reason = output.finish_reasons[0];
  reply.new_tokens = std::ssize(written);
  reply.prefill_ms += output.prefill_ms;
  reply.decode_ms = output.decode_ms;
  return reply;
}

bool ChatSession::undo() {
  if (before_.empty()) return false;
  now_ = std::move(before_.back());
  before_.pop_back();
  return true;
}

void ChatSession::save(const std::string& path) const {
  Json messages = Json::array();
  for (const ChatMessage& m : now_.messages) messages.push_back({{"role", m.role}, {"content", m.content}});
  errno = 0;
  std::ofstream out(path);
  out << Json{{"messages", messages}, {"ids", now_.ids}, {"text", now_.text}}.dump(2, ' ', false,
                                                                                   Json::error_handler_t::replace)
      << "\n";
  out.close();
  check(!out.fail(), ErrorKind::kIo, "{}: cannot be written: {}", path, std::strerror(errno));
  if (!now_.cache) return;
  const auto held = static_cast<std::ptrdiff_t>(now_.cache->seq_length());
  now_.cache->save(cache_path(path),
                   {.token_ids = {{now_.ids.begin(), now_.ids.begin() + held}}, .model = model_->config().name});
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
    cache = std::make_shared<Cache>(Cache::load(cache_path(path), model_->config(), {.model = model_->config().name}));
    check(cache->n_sequences() == 1 && cache->seq_length() == std::ssize(ids) - 1, ErrorKind::kCorruptData,
          "{}: holds {} tokens, {} has {}", cache_path(path), cache->seq_length(), path, ids.size());
    remember(ids, *cache);
  }
  now_ = {.messages = std::move(messages), .ids = std::move(ids), .text = std::move(text), .cache = std::move(cache)};
  before_.clear();
}

}  // namespace mneme
