#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "mneme/base/json.h"

namespace mneme {

/// The special tokens that go around one encoded text: the "post_processor" of a tokenizer.json.
struct PostProcessor {
  std::vector<std::int64_t> prefix;
  std::vector<std::int64_t> suffix;

  /// null adds nothing. Only what happens to a single sequence counts; templates for pairs are not read.
  /// Throws Error(kCorruptData) for missing or mistyped keys, Error(kUnsupported) naming an unknown type, or if a
  /// template does not hold the text exactly once.
  static PostProcessor from_json(const Json& json, std::string_view name);
};

}  // namespace mneme
