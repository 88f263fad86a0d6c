#include <algorithm>

#include "mneme/base/draft_file.h"
#include "mneme/base/error.h"
#include "mneme/base/json.h"
#include "mneme/base/log.h"
#include "mneme/generate/chat_session.h"
#include "mneme/generate/saved_cache.h"

// Conversations as files.
namespace mneme {
namespace {

std::string cache_path(const std::string& path) { return path + ".safetensors"; }

/// A list of whole numbers: others would be cut off where these are read, or worse.
template <class List>
List whole_numbers(const Json& json, const std::string& path) {
  for (const Json& number : json)
    check(number.is_number_integer(), ErrorKind::kCorruptData, "{}: is no saved conversation", path);
  return json.get<List>();
}

}  // namespace

bool ChatSession::save(const std::string& path) const {
  if (now_.cache) save_cache(cache_path(path), *now_.cache, now_.ids, *model_);
  Json messages = Json::array();
  for (const ChatMessage& m : now_.messages) messages.push_back({{"role", m.role}, {"content", m.content}});
  DraftFile draft(path);
  const Json json{{"messages", messages}, {"ids", now_.ids}, {"text", now_.text}, {"turns", beginnings()}};
  draft.write(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  draft.publish();
  return now_.cache != nullptr;
}

/// Of each turn how many of the ids and bytes of text were there before it. None of them where it began otherwise.
std::vector<std::array<std::size_t, 2>> ChatSession::beginnings() const {
  std::vector<std::array<std::size_t, 2>> result;
  for (const State& s : before_) {
    const bool begins = s.ids.size() <= now_.ids.size() && now_.text.starts_with(s.text) &&
                        std::equal(s.ids.begin(), s.ids.end(), now_.ids.begin());
    result.push_back(begins ? std::array{s.ids.size(), s.text.size()} : std::array<std::size_t, 2>{});
  }
  return result;
}

/// What was there before each turn of a conversation. Caches are found again when they are needed.
std::vector<ChatSession::State> ChatSession::turns_of(const State& whole,
                                                      std::span<const std::array<std::size_t, 2>> beginnings) {
  std::vector<State> turns;
  const auto& messages = whole.messages;
  for (auto m = messages.begin(); m != messages.end(); ++m) {
    if (m->role == "user") turns.push_back({.messages = {messages.begin(), m}});
  }
  for (std::size_t i = 1; i <= std::min(turns.size(), beginnings.size()); ++i) {  // the oldest may have been dropped
    const auto [n_ids, n_bytes] = beginnings[beginnings.size() - i];
    State& turn = turns[turns.size() - i];
    turn.ids.assign(whole.ids.begin(), whole.ids.begin() + static_cast<std::ptrdiff_t>(n_ids));
    turn.text = whole.text.substr(0, n_bytes);
  }
  return turns;
}

/// The cache of these ids, all but the last; of fewer where beams wrote the answer.
std::shared_ptr<Cache> ChatSession::saved_cache(const std::string& path, const std::vector<std::int64_t>& ids) const {
  SavedCache saved = load_cache(path, *model_, options_.generate);
  check(saved.ids.size() < ids.size() && std::ranges::equal(saved.ids, std::span(ids).first(saved.ids.size())),
        ErrorKind::kInvalidArgument, "{}: holds another text than the conversation's", path);
  return std::make_shared<Cache>(std::move(saved.cache));
}

void ChatSession::load(const std::string& path) {
  const Json json = read_json_file(path);
  State loaded;
  std::vector<State> turns;
  try {
    for (const Json& m : json.at("messages"))
      loaded.messages.push_back(
          {.role = m.at("role").get<std::string>(), .content = m.at("content").get<std::string>()});
    loaded.ids = whole_numbers<std::vector<std::int64_t>>(json.at("ids"), path);
    loaded.text = json.at("text").get<std::string>();
    std::vector<std::array<std::size_t, 2>> beginnings;
    for (const Json& turn : json.value("turns", Json::array())) {
      beginnings.push_back(whole_numbers<std::array<std::size_t, 2>>(turn, path));
      const auto [n_ids, n_bytes] = beginnings.back();
      check(n_ids <= loaded.ids.size() && n_bytes <= loaded.text.size(), ErrorKind::kCorruptData,
            "{}: a turn begins with {} ids and {} bytes of a conversation of {} and {}", path, n_ids, n_bytes,
            loaded.ids.size(), loaded.text.size());
    }
    turns = turns_of(loaded, beginnings);
  } catch (const Json::exception&) {
    throw Error(ErrorKind::kCorruptData, "{}: is no saved conversation", path);
  }
  for (const std::int64_t id : loaded.ids) {
    check(id >= 0 && id < model_->config().vocab_size, ErrorKind::kCorruptData, "{}: holds the token id {}", path, id);
  }
  if (!loaded.ids.empty()) {
    try {
      const std::shared_ptr<Cache> cache = saved_cache(cache_path(path), loaded.ids);
      remember(loaded.ids, *cache);
      loaded.cache = cache;
    } catch (const Error& error) {
      warn(fmt::format("{}; what the conversation holds is computed again", error.what()));
    }
  }
  now_ = std::move(loaded);
  before_ = std::move(turns);
}

}  // namespace mneme
