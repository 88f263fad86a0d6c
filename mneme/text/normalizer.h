#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "mneme/base/json.h"

namespace mneme {

/// A stretch of the input, on its way through the normalizer.
struct NormalizedText {
  std::string text;
  /// Whether the first character stems from the very first of the input, which is where Metaspace "first" puts its
  /// space.
  bool at_start = false;
};

/// Rewrites text before it is cut into words. Constant once built.
class Normalizer {
 public:
  virtual ~Normalizer() = default;

  /// Rewrites valid UTF-8 in place. Throws Error(kInvalidArgument) if the text grows past max_rewritten_bytes().
  virtual void normalize(NormalizedText& text) const = 0;
};

/// Builds the "normalizer" of a tokenizer.json; null gives nullptr. `name` is what errors call the file.
/// Throws Error(kCorruptData) for missing or mistyped keys, Error(kUnsupported) naming an unknown type.
std::unique_ptr<Normalizer> make_normalizer(const Json& json, std::string_view name);

}  // namespace mneme
