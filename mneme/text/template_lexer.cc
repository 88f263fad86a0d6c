#include "mneme/text/template_lexer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "mneme/text/template_fault.h"
#include "mneme/text/template_literals.h"
#include "mneme/text/template_text.h"

namespace mneme::jinja {
namespace {

constexpr auto kNone = std::string_view::npos;

// Line ends become "\n", and the last one goes, as in a template read from a file.
std::string normalized(std::string_view source) {
  std::string text = normalize_newlines(source);
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) root();
    push(TokenType::kEnd, "");
    return std::move(tokens_);
  }

 private:
  bool looking_at(std::string_view text) const { return std::string_view(source_).substr(at_).starts_with(text); }

  [[noreturn]] void fail_here(const std::string& message) const {
    throw Fault(ErrorKind::kCorruptData, message, line_);
  }

  Token& push(TokenType type, std::string text) {
    tokens_.push_back({.type = type, .text = std::move(text), .line = line_});
    return tokens_.back();
  }

  void advance_to(std::size_t end) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
    line_starting_ = end > at_ ? source_[end - 1] == '\n' : line_starting_;
    at_ = end;
  }

  std::size_t after_spaces(std::size_t at) const {
    while (at < source_.size()) {
      std::size_t next = at;
      if (!is_space(next_code_point(source_, next))) break;
      at = next;
    }
    return at;
  }

  // The text before a tag whose sign is '-', '+' or 0: '-' takes white space away, and a tag that stands first on its
  // line takes away what indents it (lstrip_blocks), a printing one apart.
  void data(std::string_view text, char sign, bool prints) {
    std::string_view kept = text;
    if (sign == '-') {
      kept = strip(text, Side::kRight);
    } else if (sign != '+' && !prints) {
      const std::size_t newline = text.rfind('\n');
      const std::size_t start = newline == kNone ? 0 : newline + 1;
      if ((start > 0 || line_starting_) && strip(text.substr(start), Side::kLeft).empty()) kept = text.substr(0, start);
    }
    if (!kept.empty()) push(TokenType::kData, std::string(kept));
  }

  std::size_t find_tag() const {
    for (std::size_t i = at_; (i = source_.find('{', i)) != kNone && i + 1 < source_.size(); ++i) {
      const char kind = source_[i + 1];
      if (kind == '%' || kind == '{' || kind == '#') return i;
    }
    return kNone;
  }

  void root() {
    const std::size_t tag = find_tag();
    if (tag == kNone) {
      push(TokenType::kData, source_.substr(at_));
      advance_to(source_.size());
      return;
    }
    const char kind = source_[tag + 1];
    std::size_t inside = tag + 2;
    char sign = 0;
    if (inside < source_.size() && (source_[inside] == '-' || source_[inside] == '+')) sign = source_[inside++];
    data(std::string_view(source_).substr(at_, tag - at_), sign, kind == '{');
    advance_to(tag);
    const std::size_t raw = kind == '%' ? raw_begin(inside) : kNone;
    if (raw != kNone) {
      advance_to(raw);
      raw_block();
    } else if (kind == '#') {
      advance_to(inside);
      comment();
    } else {
      push(kind == '%' ? TokenType::kBlockBegin : TokenType::kVariableBegin, "");
      advance_to(inside);
      tag_body(kind == '%' ? '%' : '}');
    }
  }

  // The end of `raw %}` or `raw -%}` that starts at `at`, or kNone.
  std::size_t raw_begin(std::size_t at) const {
    at = after_spaces(at);
    if (source_.compare(at, 3, "raw") != 0) return kNone;
    at = after_spaces(at + 3);
    if (source_.compare(at, 2, "%}") == 0) return at + 2;
    return source_.compare(at, 3, "-%}") == 0 ? after_spaces(at + 3) : kNone;
  }

  // What a closing "%}" or "#}" takes with it: "-" all white space, "+" nothing, else one line end (trim_blocks).
  std::size_t after_closing(std::size_t end, char sign) const {
    if (sign == '-') return after_spaces(end);
    return sign != '+' && end < source_.size() && source_[end] == '\n' ? end + 1 : end;
  }

  void raw_block() {
    for (std::size_t tag = at_; (tag = source_.find("{%", tag)) != kNone; tag += 2) {
      std::size_t at = tag + 2;
      char sign = 0;
      if (at < source_.size() && (source_[at] == '-' || source_[at] == '+')) sign = source_[at++];
      at = after_spaces(at);
      if (source_.compare(at, 6, "endraw") != 0) continue;
      at = after_spaces(at + 6);
      char closing = 0;
      if (at < source_.size() && (source_[at] == '-' || source_[at] == '+')) closing = source_[at++];
      if (source_.compare(at, 2, "%}") != 0) continue;
      data(std::string_view(source_).substr(at_, tag - at_), sign, false);
      advance_to(after_closing(at + 2, closing));
      return;
    }
    fail_here("the raw block has no end");
  }

  void comment() {
    const std::size_t end = source_.find("#}", at_);
    if (end == kNone) fail_here("the comment has no end");
    const char before = end > at_ ? source_[end - 1] : '\0';
    advance_to(after_closing(end + 2, before));
  }

  // The tokens between "{%" or "{{" and the end, whose first character is `closing`.
  void tag_body(char closing) {
    open_.clear();
    while (true) {
      advance_to(after_spaces(at_));
      if (at_ >= source_.size()) return;  // the parser says what is missing
      if (open_.empty() && tag_end(closing)) return;
      token();
    }
  }

  bool tag_end(char closing) {
    char sign = 0;
    std::size_t at = at_;
    if (source_[at] == '-' || (source_[at] == '+' && closing == '%')) sign = source_[at++];
    if (at + 1 >= source_.size() || source_[at] != closing || source_[at + 1] != '}') return false;
    push(closing == '%' ? TokenType::kBlockEnd : TokenType::kVariableEnd, "");
    if (closing == '%') {
      advance_to(after_closing(at + 2, sign));
    } else {
      advance_to(sign == '-' ? after_spaces(at + 2) : at + 2);
    }
    return true;
  }

  void token() {
    const char c = source_[at_];
    if (c >= '0' && c <= '9') return number();
    if (c == '\'' || c == '"') return string(c);
    std::size_t at = at_;
    if (is_name_start(next_code_point(source_, at))) return name();
    operators();
  }

  void number() {
    const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';  // x.0.1 has two indexes, not a float
    const NumberLiteral literal = scan_number(std::string_view(source_).substr(at_), !after_dot);
    if (literal.overflows) fail_here("the integer does not fit in 64 bits");
    Token& token =
        push(literal.is_float ? TokenType::kFloat : TokenType::kInteger, source_.substr(at_, literal.length));
    token.integer = literal.integer;
    token.number = literal.number;
    advance_to(at_ + literal.length);
  }

  void string(char quote) {
    std::size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail_here(fmt::format("unexpected char {:?}: the string has no end", quote));
    std::string error;
    std::string text = unescape(std::string_view(source_).substr(at_ + 1, end - at_ - 1), error);
    if (!error.empty()) fail_here(error);
    push(TokenType::kString, std::move(text));
    advance_to(end + 1);
  }

  void name() {
    std::size_t end = at_;
    for (std::size_t next = end; next < source_.size() && is_name_part(next_code_point(source_, next));) end = next;
    push(TokenType::kName, source_.substr(at_, end - at_));
    advance_to(end);
  }

  void operators() {
    static constexpr std::array<std::string_view, 6> kPairs = {"//", "**", "==", "!=", ">=", "<="};
    static constexpr std::string_view kSingles = "+-*/%~[](){}=.:|,;<>";
    std::string text(1, source_[at_]);
    for (const std::string_view pair : kPairs) {
      if (looking_at(pair)) text = pair;
    }
    if (text.size() == 1) {
      if (kSingles.find(text[0]) == kNone) fail_here(fmt::format("unexpected char {:?}", text));
      balance(text[0]);
    }
    const std::size_t length = text.size();
    push(TokenType::kOperator, std::move(text));
    advance_to(at_ + length);
  }

  // A tag ends only outside of brackets, so {{ {'a': {}} }} is one tag.
  void balance(char c) {
    static constexpr std::string_view kOpening = "([{", kClosing = ")]}";
    if (const auto kind = kOpening.find(c); kind != kNone) open_ += kClosing[kind];
    if (kClosing.find(c) == kNone) return;
    if (open_.empty()) fail_here(fmt::format("unexpected '{}'", c));
    if (open_.back() != c) fail_here(fmt::format("unexpected '{}', expected '{}'", c, open_.back()));
    open_.pop_back();
  }

  std::string source_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::string open_;  // the closing brackets that are still to come
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  if (!is_utf8(source)) throw Fault(ErrorKind::kCorruptData, "the template is not valid UTF-8", 1);
  return Lexer(normalized(source)).run();
}

}  // namespace mneme::jinja
