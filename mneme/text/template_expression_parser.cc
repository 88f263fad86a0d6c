#include "mneme/text/template_expression_parser.h"

#include <array>

namespace mneme::jinja {
namespace {

constexpr int kMaxSyntaxNesting = 200;  // brackets and blocks inside of each other
constexpr int kMaxHeight = 400;         // chains such as a + b + c too

struct ArithmeticToken {
  std::string_view text;
  Arithmetic op;
};

constexpr std::array<ArithmeticToken, 2> kSums = {{{"+", Arithmetic::kAdd}, {"-", Arithmetic::kSubtract}}};
constexpr std::array<ArithmeticToken, 4> kProducts = {{{"*", Arithmetic::kMultiply},
                                                       {"/", Arithmetic::kDivide},
                                                       {"//", Arithmetic::kFloorDivide},
                                                       {"%", Arithmetic::kModulo}}};

template <std::size_t N>
const ArithmeticToken* find_operator(const std::array<ArithmeticToken, N>& operators, const TokenStream& stream) {
  for (const auto& candidate : operators) {
    if (stream.is_operator(candidate.text)) return &candidate;
  }
  return nullptr;
}

// The comparison at the stream's place, which is taken.
std::optional<Comparison> take_comparison(TokenStream& stream) {
  static constexpr std::array<std::pair<std::string_view, Comparison>, 6> kOperators = {
      {{"==", Comparison::kEqual},
       {"!=", Comparison::kNotEqual},
       {"<", Comparison::kLess},
       {"<=", Comparison::kLessEqual},
       {">", Comparison::kGreater},
       {">=", Comparison::kGreaterEqual}}};
  for (const auto& [text, op] : kOperators) {
    if (stream.skip_operator(text)) return op;
  }
  if (stream.skip_name("in")) return Comparison::kIn;
  if (stream.is_name("not") && stream.ahead().type == TokenType::kName && stream.ahead().text == "in") {
    stream.next();
    stream.next();
    return Comparison::kNotIn;
  }
  return std::nullopt;
}

}  // namespace

ExpressionParser::Nested::Nested(ExpressionParser& parser) : parser_(parser) {
  if (parser.nesting_ >= kMaxSyntaxNesting) {
    parser.stream_.fail_here(fmt::format("the template nests deeper than {} levels", kMaxSyntaxNesting));
  }
  ++parser.nesting_;
}

void ExpressionParser::check_height(int height) const {
  if (height > kMaxHeight) stream_.fail_here(fmt::format("an expression is deeper than {} levels", kMaxHeight));
}

bool ExpressionParser::at_tuple_end() const {
  return stream_.is(TokenType::kVariableEnd) || stream_.is(TokenType::kBlockEnd) || stream_.is_operator(")");
}

ExpressionPtr ExpressionParser::expression_or_tuple(bool with_conditional) {
  const int line = stream_.line();
  std::vector<ExpressionPtr> items;
  bool is_tuple = false;
  while (!at_tuple_end()) {
    items.push_back(with_conditional ? conditional() : disjunction());
    if (!stream_.skip_operator(",")) break;
    is_tuple = true;
  }
  if (is_tuple) return make<ListDisplay>(line, Sequence::Kind::kTuple, std::move(items));
  if (items.empty()) stream_.fail_expected("an expression");
  return std::move(items.front());
}

ExpressionPtr ExpressionParser::conditional() {
  const Nested nested(*this);
  int line = stream_.line();
  ExpressionPtr node = disjunction();
  while (stream_.skip_name("if")) {
    ExpressionPtr test = disjunction();
    ExpressionPtr otherwise = stream_.skip_name("else") ? conditional() : nullptr;
    node = make<Conditional>(line, std::move(test), std::move(node), std::move(otherwise));
    line = stream_.line();
  }
  return node;
}

ExpressionPtr ExpressionParser::disjunction() {
  const int line = stream_.line();
  ExpressionPtr left = conjunction();
  while (stream_.skip_name("or")) left = make<Logical>(line, false, std::move(left), conjunction());
  return left;
}

ExpressionPtr ExpressionParser::conjunction() {
  const int line = stream_.line();
  ExpressionPtr left = negation();
  while (stream_.skip_name("and")) left = make<Logical>(line, true, std::move(left), negation());
  return left;
}

ExpressionPtr ExpressionParser::negation() {
  const Nested nested(*this);
  const int line = stream_.line();
  if (!stream_.skip_name("not")) return comparison();
  return make<Unary>(line, '!', negation());
}

ExpressionPtr ExpressionParser::comparison() {
  const int line = stream_.line();
  ExpressionPtr first = sum();
  std::vector<Compare::Operand> rest;
  while (const auto op = take_comparison(stream_)) rest.emplace_back(*op, sum());
  if (rest.empty()) return first;
  return make<Compare>(line, std::move(first), std::move(rest));
}

ExpressionPtr ExpressionParser::sum() {
  const int line = stream_.line();
  ExpressionPtr left = concatenation();
  while (const auto* found = find_operator(kSums, stream_)) {
    stream_.next();
    left = make<Binary>(line, found->op, std::move(left), concatenation());
  }
  return left;
}

ExpressionPtr ExpressionParser::concatenation() {
  const int line = stream_.line();
  std::vector<ExpressionPtr> parts;
  do {
    parts.push_back(product());
  } while (stream_.skip_operator("~"));
  if (parts.size() == 1) return std::move(parts.front());
  return make<Concat>(line, std::move(parts));
}

ExpressionPtr ExpressionParser::product() {
  const int line = stream_.line();
  ExpressionPtr left = power();
  while (const auto* found = find_operator(kProducts, stream_)) {
    stream_.next();
    left = make<Binary>(line, found->op, std::move(left), power());
  }
  return left;
}

ExpressionPtr ExpressionParser::power() {
  const int line = stream_.line();
  ExpressionPtr left = unary();
  while (stream_.skip_operator("**")) left = make<Binary>(line, Arithmetic::kPower, std::move(left), unary());
  return left;
}

ExpressionPtr ExpressionParser::unary(bool with_filters) {
  const Nested nested(*this);
  const int line = stream_.line();
  ExpressionPtr node;
  if (stream_.skip_operator("-")) {
    node = make<Unary>(line, '-', unary(false));
  } else if (stream_.skip_operator("+")) {
    node = make<Unary>(line, '+', unary(false));
  } else {
    node = primary();
  }
  node = postfix(std::move(node));
  return with_filters ? filters_and_tests(std::move(node)) : std::move(node);
}

ExpressionPtr ExpressionParser::primary() {
  const int line = stream_.line();
  const Token& token = stream_.current();
  switch (token.type) {
    case TokenType::kName: return name_or_constant();
    case TokenType::kString: return string_literal();
    case TokenType::kInteger: return make<Literal>(line, Value(stream_.next().integer));
    case TokenType::kFloat: return make<Literal>(line, Value(stream_.next().number));
    default: break;
  }
  if (stream_.is_operator("[")) return list_display();
  if (stream_.is_operator("{")) return dict_display();
  if (!stream_.skip_operator("(")) stream_.fail_here(fmt::format("unexpected {}", TokenStream::describe(token)));
  ExpressionPtr node = stream_.is_operator(")")
                           ? make<ListDisplay>(line, Sequence::Kind::kTuple, std::vector<ExpressionPtr>{})
                           : expression_or_tuple();
  stream_.expect_operator(")");
  return node;
}

ExpressionPtr ExpressionParser::string_literal() {
  const int line = stream_.line();
  std::string text;
  while (stream_.is(TokenType::kString)) text += stream_.next().text;
  return make<Literal>(line, Value(std::move(text)));
}

ExpressionPtr ExpressionParser::name_or_constant() {
  const int line = stream_.line();
  const std::string name = stream_.next().text;
  if (name == "true" || name == "True") return make<Literal>(line, Value(true));
  if (name == "false" || name == "False") return make<Literal>(line, Value(false));
  if (name == "none" || name == "None") return make<Literal>(line, Value(None{}));
  for (MacroDefinition* macro : macros) {
    macro->uses_varargs |= name == "varargs";
    macro->uses_kwargs |= name == "kwargs";
    macro->uses_caller |= name == "caller";
  }
  return make<Name>(line, name);
}

ExpressionPtr ExpressionParser::list_display() {
  const int line = stream_.next().line;
  std::vector<ExpressionPtr> items;
  while (!stream_.is_operator("]")) {
    items.push_back(expression());
    if (!stream_.skip_operator(",")) break;
  }
  stream_.expect_operator("]");
  return make<ListDisplay>(line, Sequence::Kind::kList, std::move(items));
}

ExpressionPtr ExpressionParser::dict_display() {
  const int line = stream_.next().line;
  std::vector<DictDisplay::Item> items;
  while (!stream_.is_operator("}")) {
    ExpressionPtr key = expression();
    stream_.expect_operator(":");
    items.emplace_back(std::move(key), expression());
    if (!stream_.skip_operator(",")) break;
  }
  stream_.expect_operator("}");
  return make<DictDisplay>(line, std::move(items));
}

}  // namespace mneme::jinja
