// What follows a value: attributes, subscripts, calls, filters and tests; and the targets of assignments.
#include "mneme/text/template_expression_parser.h"

namespace mneme::jinja {

ExpressionPtr ExpressionParser::postfix(ExpressionPtr node) {
  while (true) {
    const int line = stream_.line();
    if (stream_.is_operator(".")) {
      node = attribute(std::move(node));
    } else if (stream_.is_operator("[")) {
      node = subscript(std::move(node));
    } else if (stream_.is_operator("(")) {
      node = make<Call>(line, std::move(node), arguments());
    } else {
      return node;
    }
  }
}

ExpressionPtr ExpressionParser::filters_and_tests(ExpressionPtr node) {
  while (true) {
    const int line = stream_.line();
    if (stream_.skip_operator("|")) {
      node = filters(std::move(node));
    } else if (stream_.skip_name("is")) {
      node = test(std::move(node));
    } else if (stream_.is_operator("(")) {
      node = make<Call>(line, std::move(node), arguments());
    } else {
      return node;
    }
  }
}

ExpressionPtr ExpressionParser::attribute(ExpressionPtr node) {
  const int line = stream_.next().line;
  if (stream_.is(TokenType::kInteger)) {
    ExpressionPtr index = make<Literal>(line, Value(stream_.next().integer));
    return make<Subscript>(line, std::move(node), std::move(index));
  }
  std::string name = stream_.expect(TokenType::kName, "a name or number after '.'").text;
  return make<Attribute>(line, std::move(node), std::move(name));
}

ExpressionPtr ExpressionParser::subscript(ExpressionPtr node) {
  const int line = stream_.next().line;
  ExpressionPtr parts[3];
  bool is_slice = false;
  for (int i = 0; i < 3; ++i) {
    if (!at_slice_end()) parts[i] = expression();
    if (i == 2 || !stream_.skip_operator(":")) break;
    is_slice = true;
  }
  if (is_slice) {
    stream_.expect_operator("]");
    return make<Slice>(line, std::move(node), std::move(parts[0]), std::move(parts[1]), std::move(parts[2]));
  }
  ExpressionPtr index = std::move(parts[0]);
  if (stream_.is_operator(",")) {
    std::vector<ExpressionPtr> items;
    items.push_back(std::move(index));
    while (stream_.skip_operator(",") && !stream_.is_operator("]")) items.push_back(expression());
    index = make<ListDisplay>(line, Sequence::Kind::kTuple, std::move(items));
  }
  if (!index) stream_.fail_expected("an index");
  stream_.expect_operator("]");
  return make<Subscript>(line, std::move(node), std::move(index));
}

std::string ExpressionParser::dotted_name() {
  std::string name = stream_.expect_name();
  while (stream_.skip_operator(".")) name += "." + stream_.expect_name();
  return name;
}

ExpressionPtr ExpressionParser::filters(ExpressionPtr input) {
  do {
    const int line = stream_.line();
    std::string name = dotted_name();
    CallArguments with = stream_.is_operator("(") ? arguments() : CallArguments{};
    input = make<Filter>(line, std::move(input), std::move(name), std::move(with));
  } while (stream_.skip_operator("|"));
  return input;
}

ExpressionPtr ExpressionParser::test(ExpressionPtr node) {
  const int line = stream_.line();
  const bool negated = stream_.skip_name("not");
  std::string name = dotted_name();
  CallArguments with;
  const TokenType type = stream_.current().type;
  const bool starts_value = type == TokenType::kName || type == TokenType::kString || type == TokenType::kInteger ||
                            type == TokenType::kFloat || stream_.is_operator("[") || stream_.is_operator("{");
  if (stream_.is_operator("(")) {
    with = arguments();
  } else if (stream_.is_name("is")) {
    stream_.fail_here("tests with 'is' cannot be chained");
  } else if (starts_value && !stream_.is_name("else") && !stream_.is_name("or") && !stream_.is_name("and")) {
    with.positional.push_back(postfix(primary()));
  }
  ExpressionPtr result = make<Test>(line, std::move(node), std::move(name), std::move(with));
  return negated ? make<Unary>(line, '!', std::move(result)) : std::move(result);
}

void ExpressionParser::argument(CallArguments& into) {
  const auto require = [&](bool allowed) {
    if (!allowed) stream_.fail_here("the arguments of a call are out of order: positional, named, *list, **dict");
  };
  if (stream_.skip_operator("*")) {
    require(!into.list && !into.dict);
    into.list = expression();
  } else if (stream_.skip_operator("**")) {
    require(!into.dict);
    into.dict = expression();
  } else if (stream_.is(TokenType::kName) && stream_.ahead().type == TokenType::kOperator &&
             stream_.ahead().text == "=") {
    require(!into.dict);
    std::string name = stream_.expect_name();
    stream_.next();
    for (const auto& [known, value] : into.named) {
      if (known == name) stream_.fail_here(fmt::format("the keyword argument '{}' is repeated", name));
    }
    into.named.emplace_back(std::move(name), expression());
  } else {
    require(!into.list && !into.dict && into.named.empty());
    into.positional.push_back(expression());
  }
}

CallArguments ExpressionParser::arguments() {
  const Nested nested(*this);
  CallArguments result;
  stream_.expect_operator("(");
  while (!stream_.is_operator(")")) {
    argument(result);
    if (!stream_.skip_operator(",")) break;
  }
  stream_.expect_operator(")");
  return result;
}

std::unique_ptr<const Call> ExpressionParser::call_expression() {
  ExpressionPtr node = expression();
  if (!dynamic_cast<const Call*>(node.get())) stream_.fail_here("a call block needs the call of a macro");
  return std::unique_ptr<const Call>(static_cast<const Call*>(node.release()));
}

Target ExpressionParser::single_target(bool with_attributes) {
  const Nested nested(*this);
  Target result;
  if (stream_.skip_operator("(")) {
    result = target(with_attributes);
    stream_.expect_operator(")");
    return result;
  }
  result.name = stream_.expect_name();
  for (const std::string_view constant : {"true", "false", "none", "True", "False", "None"}) {
    if (result.name == constant) stream_.fail_here(fmt::format("can't assign to '{}'", constant));
  }
  if (with_attributes && stream_.skip_operator(".")) result.attribute = stream_.expect_name();
  return result;
}

Target ExpressionParser::target(bool with_attributes) {
  Target first = single_target(with_attributes);
  if (!stream_.is_operator(",")) return first;
  Target tuple;
  tuple.is_tuple = true;
  tuple.items.push_back(std::move(first));
  while (stream_.skip_operator(",") && !at_target_end()) {
    tuple.items.push_back(single_target(with_attributes));
  }
  return tuple;
}

}  // namespace mneme::jinja
