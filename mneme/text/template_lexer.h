#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mneme::jinja {

enum class TokenType {
  kData,  ///< text outside of tags
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,  ///< escapes resolved
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenType type = TokenType::kEnd;
  std::string text;
  int line = 1;
  std::int64_t integer = 0;
  double number = 0;
};

/// Splits a template into tokens, the last of them kEnd, with white space handled as Jinja does under trim_blocks and
/// lstrip_blocks. Throws Fault(kCorruptData) with the line where the source is not well formed.
std::vector<Token> tokenize(std::string_view source);

}  // namespace mneme::jinja
