#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mneme/generate/logits_processor.h"
#include "mneme/text/json_schema.h"
#include "mneme/text/token_trie.h"

namespace mneme {

/// Holds new tokens to a JSON schema: see JsonSchema for what is read of it. Constant, and made once for a schema and a
/// tokenizer; hand it to GenerateOptions::json_constraint, also of several calls at once.
///
/// A token is allowed if its bytes lead to a text that still can match, an eos where the text matches. So what ended
/// with finish reason "stop" is JSON of that schema; "length" and the like may cut it off anywhere. A step costs one
/// pass over the tokens that are allowed, some hundred microseconds at most once a schema's states are known.
class JsonConstraint {
 public:
  /// O(bytes of the vocabulary).
  JsonConstraint(JsonSchema schema, const Tokenizer& tokenizer);

  /// Bans what does not match, for one call to generate(); this must outlive it. What it knows of texts is its own.
  LogitsProcessor processor(std::vector<std::int64_t> eos_token_id) const;

 private:
  JsonSchema schema_;
  std::vector<std::string> tokens_;  // the bytes of each id
  TokenTrie trie_;
};

}  // namespace mneme
