#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "mneme/base/json.h"
#include "mneme/text/regex.h"

namespace mneme {

/// What a Split or Replace looks for: {"String": literal} or {"Regex": pattern in Oniguruma's syntax}.
class Pattern {
 public:
  /// Throws Error(kCorruptData) if the JSON is neither, Error(kUnsupported) if the regex cannot be used.
  static Pattern from_json(const Json& json, std::string_view name);

  explicit Pattern(std::string literal) : what_(std::move(literal)) {}
  explicit Pattern(Regex regex) : what_(std::move(regex)) {}

  /// Appends the matches in valid UTF-8, from left to right, without overlap.
  void find_all(std::string_view text, std::vector<ByteRange>& matches) const;

  /// How many times longer replace_all can make a text, at most.
  double max_growth(std::string_view content) const;

  /// The text with every match replaced. Throws Error(kInvalidArgument) if that takes more than `max_bytes`.
  std::string replace_all(std::string_view text, std::string_view content, std::size_t max_bytes) const;

 private:
  std::variant<std::string, Regex> what_;
};

}  // namespace mneme
