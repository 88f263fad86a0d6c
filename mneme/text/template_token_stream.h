#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mneme/text/template_fault.h"
#include "mneme/text/template_lexer.h"

namespace mneme::jinja {

/// The tokens of a template under the eyes of the parser. Its failures are Fault(kCorruptData) with a line.
class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  int line() const { return current().line; }

  /// The current token, which moves on; the last one stays.
  const Token& next() {
    const Token& token = current();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }

  bool is(TokenType type) const { return current().type == type; }
  bool is_name(std::string_view name) const { return is(TokenType::kName) && current().text == name; }
  bool is_operator(std::string_view text) const { return is(TokenType::kOperator) && current().text == text; }

  bool skip_name(std::string_view name) { return is_name(name) && (next(), true); }
  bool skip_operator(std::string_view text) { return is_operator(text) && (next(), true); }

  const Token& expect(TokenType type, std::string_view what) {
    if (!is(type)) fail_expected(what);
    return next();
  }
  std::string expect_name() { return expect(TokenType::kName, "a name").text; }
  void expect_operator(std::string_view text) {
    if (!skip_operator(text)) fail_expected(text);
  }

  [[noreturn]] void fail_expected(std::string_view what) const {
    fail_here(fmt::format("expected {}, got {}", what, describe(current())));
  }
  [[noreturn]] void fail_here(std::string message) const {
    throw Fault(ErrorKind::kCorruptData, std::move(message), line());
  }

  static std::string describe(const Token& token) {
    switch (token.type) {
      case TokenType::kData: return "text";
      case TokenType::kVariableBegin: return "'{{'";
      case TokenType::kVariableEnd: return "'}}'";
      case TokenType::kBlockBegin: return "'{%'";
      case TokenType::kBlockEnd: return "'%}'";
      case TokenType::kEnd: return "the end of the template";
      default: return fmt::format("'{}'", token.text);
    }
  }

 private:
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

}  // namespace mneme::jinja
