#include "mneme/tasks/chat.h"

#include <algorithm>
#include <map>

#include "mneme/base/error.h"
#include "mneme/generate/chat_session.h"
#include "mneme/generate/json_constraint.h"
#include "mneme/generate/option_keys.h"
#include "mneme/tasks/loaded.h"

namespace mneme::tasks {
namespace {

constexpr std::int64_t kBlocksInALine = 64;

/// A line of blocks: S shared with other turns, o its own, q encoded, d on disk, . let go.
std::string drawing_of(const Cache& cache) {
  const auto layer = std::ranges::find_if(cache.layers(), [](const CacheLayer& l) { return l.has_attention(); });
  if (layer == cache.layers().end()) return "states only: nothing grows with the text\n";
  const KvSequence& sequence = layer->attention().sequence(0);
  const BlockList &raw = sequence.raw(), &sealed = sequence.sealed();
  std::string drawing;
  for (std::int64_t b = 0; b < std::max(raw.size(), sealed.size()); ++b) {
    if (b > 0 && b % kBlocksInALine == 0) drawing += '\n';
    const bool is_raw = b < raw.size() && raw.at(b), is_sealed = b < sealed.size() && sealed.at(b);
    if (is_sealed) {
      drawing += sealed.at(b).pool()->tier().resident() ? 'q' : 'd';
    } else if (is_raw) {
      drawing += !raw.at(b).pool()->tier().resident() ? 'd' : raw.owns(b) ? 'o' : 'S';
    } else {
      drawing += '.';
    }
  }
  return drawing + "\n64 tokens each: S shared with other turns, o own, q encoded, d on disk, . let go\n";
}

FullContext full_context_of(const std::string& name) {
  if (name == "refuse") return FullContext::kRefuse;
  if (name == "drop-oldest") return FullContext::kDropOldest;
  check(name == "slide", ErrorKind::kInvalidArgument, "--full-context is refuse, drop-oldest or slide, not \"{}\"",
        name);
  return FullContext::kSlide;
}

class Conversations final : public Chat {
 public:
  Conversations(const ChatRequest& request, ChatOptions options, const Loaded& loaded)
      : model_(std::get<std::shared_ptr<const CausalLM>>(loaded.model)) {
    const auto tokenizer = std::make_shared<const TextTokenizer>(*loaded.tokenizer);
    sessions_.emplace(now_, ChatSession(model_, tokenizer, std::move(options)));
    session().set_system_prompt(request.system_prompt);
  }

  Json say(const std::string& text, const GenerateEvents& events) override {
    const auto write = [&](std::string_view piece) {
      if (events.on_text) events.on_text(0, piece);
    };
    session().options().on_prefill = events.on_prefill;
    const ChatReply reply = session().say(text, write, events.cancelled);
    session().options().on_prefill = {};
    const Cache& cache = *session().cache();
    const double per_second = reply.decode_ms > 0 ? static_cast<double>(reply.new_tokens) * 1e3 / reply.decode_ms : 0;
    return {
        {"text", reply.text},
        {"finish_reason", reply.finish_reason},
        {"turns_dropped", reply.n_turns_dropped},
        {"tokens_dropped", reply.n_tokens_dropped},
        {"usage",
         {{"prompt_tokens", reply.prompt_tokens},
          {"cached_tokens", reply.cached_tokens},
          {"new_tokens", reply.new_tokens}}},
        {"timing",
         {{"prefill_ms", reply.prefill_ms}, {"decode_ms", reply.decode_ms}, {"decode_tokens_per_s", per_second}}},
        {"cache",
         {{"length", cache.seq_length()}, {"bytes", cache.n_bytes()}, {"bytes_offloaded", cache.n_bytes_offloaded()}}}};
  }
  void set_system_prompt(const std::string& text) override { session().set_system_prompt(text); }
  bool undo() override { return session().undo(); }
  void fork(const std::string& name) override {
    check(!sessions_.contains(name), ErrorKind::kInvalidArgument, "there is a conversation \"{}\" already", name);
    sessions_.emplace(name, session().fork());
    now_ = name;
  }
  void switch_to(const std::string& name) override {
    check(sessions_.contains(name), ErrorKind::kInvalidArgument, "there is no conversation \"{}\"; make it by /fork",
          name);
    now_ = name;
  }
  std::vector<std::string> names() const override {
    std::vector<std::string> names = {now_};
    for (const auto& [name, session] : sessions_) {
      if (name != now_) names.push_back(name);
    }
    return names;
  }
  bool save(const std::string& path) const override { return sessions_.at(now_).save(path); }
  void load(const std::string& path) override { session().load(path); }

  void set(const std::string& key, const Json& value) override {
    bool known = false;
    visit_option_keys([&](const char* name, auto) { known = known || key == name; });
    check(known, ErrorKind::kInvalidArgument, "there is no option \"{}\"; keys are those of generation_config.json",
          key);
    const GenerationConfig parsed = GenerationConfig::from_json({{key, value}}, "/set");
    GenerateOptions changed = session().options();
    visit_option_keys([&](const char* name, auto member) {
      if (key == name) changed.*member = parsed.*member;
    });
    check_values(changed);
    session().options() = std::move(changed);
  }

  std::string drawing() const override {
    const Cache* cache = sessions_.at(now_).cache();
    return cache ? drawing_of(*cache) : "nothing is cached yet\n";
  }

 private:
  ChatSession& session() { return sessions_.at(now_); }

  std::shared_ptr<const CausalLM> model_;
  std::map<std::string, ChatSession> sessions_;
  std::string now_ = "main";
};

}  // namespace

std::unique_ptr<Chat> open_chat(const ChatRequest& request) {
  ChatOptions options{.generate = options_of(request.options, request.cache_config, request.generation_config),
                      .max_context = request.max_context,
                      .full_context = full_context_of(request.full_context),
                      .sink_tokens = request.sink_tokens};
  std::optional<JsonSchema> schema;
  if (!request.json_schema.empty()) schema = JsonSchema::parse(request.json_schema, "--json-schema");
  const Loaded loaded = load(request.model, TokenizerNeed::kRequired);
  if (schema)
    options.generate.json_constraint = std::make_shared<const JsonConstraint>(*schema, loaded.tokenizer->tokenizer());
  check(loaded.causal() != nullptr, ErrorKind::kInvalidArgument,
        "{} is an encoder-decoder, which has no conversations; use mneme generate", loaded.name);
  return std::make_unique<Conversations>(request, std::move(options), loaded);
}

}  // namespace mneme::tasks
