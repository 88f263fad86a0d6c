#include "mneme/text/post_processor.h"

#include "mneme/base/error.h"
#include "mneme/text/component.h"
#include "mneme/text/vocabulary.h"

namespace mneme {
namespace {

std::int64_t token_id(const Json& json, std::string_view name) {
  check(is_integer_up_to(json, kMaxTokenId), ErrorKind::kCorruptData,
        "{}: a post_processor's token id must lie in 0..{}, it is {}", name, kMaxTokenId, excerpt(json));
  return json.get<std::int64_t>();
}

/// "cls" and "sep" of Bert and Roberta: ["[CLS]", 101].
std::int64_t pair_id(const Component& component, const char* key, std::string_view name) {
  const Json& pair = component.array(key);
  if (pair.size() != 2) component.refuse_value(key);
  return token_id(pair[1], name);
}

void add_template(const Component& component, std::string_view name, PostProcessor& around) {
  std::vector<std::int64_t> before, after;
  int n_texts = 0;
  for (const Json& piece : component.array("single")) {
    check(piece.is_object() && piece.size() == 1 && piece.front().is_object(), ErrorKind::kCorruptData,
          "{}: a piece of the template must be {{\"Sequence\": ..}} or {{\"SpecialToken\": ..}}", name);
    if (piece.contains("Sequence")) {
      ++n_texts;
      continue;
    }
    const std::string token = json_string(piece.front(), "id", "", name);
    const Json& tokens = component.at("special_tokens");
    check(piece.contains("SpecialToken") && tokens.is_object() && tokens.contains(token) && tokens[token].is_object() &&
              tokens[token].contains("ids") && tokens[token]["ids"].is_array(),
          ErrorKind::kCorruptData, "{}: the template uses \"{}\", which its special_tokens lack", name, token);
    for (const Json& id : tokens[token]["ids"]) (n_texts ? after : before).push_back(token_id(id, name));
  }
  check(n_texts == 1, ErrorKind::kUnsupported, "{}: the template must hold the text once, it holds it {} times", name,
        n_texts);
  around.prefix.insert(around.prefix.begin(), before.begin(), before.end());
  around.suffix.insert(around.suffix.end(), after.begin(), after.end());
}

void add_steps(const Json& json, std::string_view name, PostProcessor& around) {
  const Component component(json, "post_processor", name);
  const std::string& type = component.type();
  if (type == "Sequence") {
    for (const Json& step : component.array("processors")) add_steps(step, name, around);
  } else if (type == "TemplateProcessing") {
    add_template(component, name, around);
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    around.prefix.insert(around.prefix.begin(), pair_id(component, "cls", name));
    around.suffix.push_back(pair_id(component, "sep", name));
  } else if (type != "ByteLevel") {  // which only trims offsets
    component.refuse();
  }
}

}  // namespace

PostProcessor PostProcessor::from_json(const Json& json, std::string_view name) {
  PostProcessor around;
  if (!json.is_null()) add_steps(json, name, around);
  return around;
}

}  // namespace mneme
