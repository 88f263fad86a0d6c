#include "mneme/text/pattern.h"

#include <algorithm>

#include "mneme/base/error.h"

namespace mneme {

Pattern Pattern::from_json(const Json& json, std::string_view name) {
  const bool object = json.is_object() && json.size() == 1 && json.front().is_string();
  if (object && json.contains("String")) return Pattern(json.front().get<std::string>());
  if (object && json.contains("Regex")) return Pattern(Regex::from_oniguruma(json.front().get<std::string>()));
  throw Error(ErrorKind::kCorruptData, "{}: \"pattern\" must be {{\"String\": text}} or {{\"Regex\": text}}", name);
}

void Pattern::find_all(std::string_view text, std::vector<ByteRange>& matches) const {
  if (const auto* literal = std::get_if<std::string>(&what_)) {
    find_all_literal(text, *literal, matches);
  } else {
    std::get<Regex>(what_).find_all(text, matches);
  }
}

double Pattern::max_growth(std::string_view content) const {
  const auto n_bytes = static_cast<double>(content.size());
  const auto* literal = std::get_if<std::string>(&what_);
  if (!literal) return 1 + n_bytes;  // an empty match before every byte
  return literal->empty() ? 1 : std::max(1.0, n_bytes / static_cast<double>(literal->size()));
}

std::string Pattern::replace_all(std::string_view text, std::string_view content, std::size_t max_bytes) const {
  std::vector<ByteRange> matches;
  find_all(text, matches);
  std::string replaced;
  std::size_t done = 0;
  for (const ByteRange& match : matches) {
    replaced.append(text, done, match.begin - done);
    replaced += content;
    done = match.end;
    check(replaced.size() <= max_bytes, ErrorKind::kInvalidArgument,
          "a Replace step makes more than {} bytes of a text of {}", max_bytes, text.size());
  }
  return replaced.append(text, done);
}

}  // namespace mneme
