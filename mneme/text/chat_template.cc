#include "mneme/text/chat_template.h"

#include <array>
#include <utility>

#include "mneme/base/error.h"
#include "mneme/text/template_fault.h"
#include "mneme/text/template_from_json.h"
#include "mneme/text/template_globals.h"
#include "mneme/text/template_parser.h"
#include "mneme/text/template_run.h"
#include "mneme/text/template_text.h"

namespace mneme {
namespace {

// Parity: transformers marks the end of the last message with this text and cuts the rendered chat there.
constexpr std::string_view kEndMark = "CONTINUE_FINAL_MESSAGE_TAG ";
constexpr std::string_view kEndMarkStripped = kEndMark.substr(0, kEndMark.size() - 1);

constexpr std::array<const char*, 4> kReserved = {"messages", "tools", "documents", "add_generation_prompt"};

void check_list(const Json& value, std::string_view what, std::string_view name) {
  check(value.is_array(), ErrorKind::kInvalidArgument, "{}: {} must be a list, they are {}", name, what,
        value.type_name());
  for (const Json& item : value) {
    check(item.is_object(), ErrorKind::kInvalidArgument, "{}: each of the {} must be an object, one is {}", name, what,
          item.type_name());
  }
}

// Parity: transformers gives a message's reasoning under its old and its new names, whichever it came with.
Json with_reasoning_aliases(const Json& message) {
  for (const char* field : {"reasoning_content", "thinking", "reasoning"}) {
    const auto found = message.find(field);
    if (found == message.end() || found->is_null()) continue;
    Json aliased = Json::object();
    aliased["thinking"] = *found;
    for (const auto& [key, value] : message.items()) aliased[key] = value;
    aliased["reasoning_content"] = *found;
    return aliased;
  }
  return message;
}

// The text that is to be continued, which gets the mark behind it.
std::string mark_final_message(Json& messages, std::string_view name) {
  check(!messages.empty(), ErrorKind::kInvalidArgument, "{}: there is no message to continue", name);
  Json* content = nullptr;
  if (messages.back().contains("content")) content = &messages.back()["content"];
  if (content && content->is_array()) {
    Json* last_text = nullptr;
    for (Json& part : *content) {
      if (part.is_object() && part.contains("text")) last_text = &part["text"];
    }
    content = last_text;
  }
  check(content && content->is_string(), ErrorKind::kInvalidArgument,
        "{}: continue_final_message needs text in the \"content\" of the last message", name);
  std::string text = content->get<std::string>();
  *content = text + std::string(kEndMark);
  return text;
}

std::string cut_at_mark(std::string rendered, std::string_view final_text, std::string_view name) {
  const std::size_t mark = rendered.rfind(kEndMarkStripped);
  const std::string_view trimmed = jinja::strip(final_text, jinja::Side::kBoth);
  check(mark != std::string::npos && jinja::find_text(rendered, trimmed) != std::string::npos,
        ErrorKind::kInvalidArgument,
        "{}: the last message does not show in the rendered chat, so it cannot be continued", name);
  const bool keeps_spaces = std::string_view(rendered).substr(mark).starts_with(kEndMark);
  rendered.resize(mark);
  if (!keeps_spaces) rendered.resize(jinja::strip(rendered, jinja::Side::kRight).size());
  return rendered;
}

void define_variables(jinja::Run& run, const Json& messages, const ChatTemplateOptions& options) {
  const std::pair<const char*, const std::string&> tokens[] = {
      {"bos_token", options.bos_token},  {"eos_token", options.eos_token}, {"unk_token", options.unk_token},
      {"sep_token", options.sep_token},  {"pad_token", options.pad_token}, {"cls_token", options.cls_token},
      {"mask_token", options.mask_token}};
  for (const auto& [name, token] : tokens) {
    if (!token.empty()) run.assign(name, jinja::Value(token));
  }
  for (const auto& [name, value] : options.extra.items()) run.assign(name, jinja::from_json(value));
  run.assign("messages", jinja::from_json(messages));
  run.assign("tools", jinja::from_json(options.tools));
  run.assign("documents", jinja::from_json(options.documents));
  run.assign("add_generation_prompt", jinja::Value(options.add_generation_prompt));
}

void check_options(const ChatTemplateOptions& options, std::string_view name) {
  check(!(options.add_generation_prompt && options.continue_final_message), ErrorKind::kInvalidArgument,
        "{}: add_generation_prompt opens a new message and continue_final_message goes on with the last one; set only "
        "one of them",
        name);
  if (!options.tools.is_null()) check_list(options.tools, "tools", name);
  if (!options.documents.is_null()) check_list(options.documents, "documents", name);
  check(options.extra.is_null() || options.extra.is_object(), ErrorKind::kInvalidArgument,
        "{}: extra variables must be an object, they are {}", name, options.extra.type_name());
  for (const char* reserved : kReserved) {
    check(!options.extra.contains(reserved), ErrorKind::kInvalidArgument,
          "{}: \"{}\" cannot be an extra variable, it has an option of its own", name, reserved);
  }
}

}  // namespace

struct ChatTemplate::Parsed {
  std::string name;
  bool reads_content;  // whether the source speaks of "content" at all
  jinja::Body body;

  [[noreturn]] void fail(const jinja::Fault& fault, int line) const {
    throw Error(fault.kind, "{}, line {}: {}", name, line, fault.message);
  }
};

ChatTemplate::ChatTemplate(std::string_view source, std::string_view name) {
  auto parsed = std::make_unique<Parsed>();
  parsed->name = name;
  parsed->reads_content = source.find("content") != std::string_view::npos;
  try {
    parsed->body = jinja::parse_template(source);
  } catch (const jinja::Fault& fault) {
    parsed->fail(fault, fault.line);
  }
  parsed_ = std::move(parsed);
}

ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

std::string ChatTemplate::render(const Json& messages, const ChatTemplateOptions& options) const {
  const std::string& name = parsed_->name;
  check_options(options, name);
  check_list(messages, "messages", name);
  Json seen = Json::array();
  for (const Json& message : messages) seen.push_back(with_reasoning_aliases(message));
  std::string final_text;
  if (options.continue_final_message) {
    check(parsed_->reads_content, ErrorKind::kInvalidArgument,
          "{}: the template never reads \"content\", so no message can be continued", name);
    final_text = mark_final_message(seen, name);
  }
  jinja::Run run(options.now);
  try {
    jinja::define_globals(run);
    define_variables(run, seen, options);
    parsed_->body.run(run);
  } catch (const jinja::RaisedByTemplate& raised) {
    throw Error(raised.kind, "{} refuses the messages: {}", name, raised.message);
  } catch (const jinja::Fault& fault) {
    parsed_->fail(fault, run.line());
  }
  std::string rendered = run.take_output();
  return options.continue_final_message ? cut_at_mark(std::move(rendered), final_text, name) : rendered;
}

}  // namespace mneme
