#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mneme/text/template_expressions.h"
#include "mneme/text/template_token_stream.h"

namespace mneme::jinja {

/// The expression half of the parser: one function for each level of precedence, loosest first.
class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& stream) : stream_(stream) {}

  ExpressionPtr expression() { return conditional(); }
  /// One expression, or a tuple of several without brackets; `with_conditional` false leaves `if` to the caller.
  ExpressionPtr expression_or_tuple(bool with_conditional = true);
  std::unique_ptr<const Call> call_expression();
  /// The filters after `input`: name(...) | name ...
  ExpressionPtr filters(ExpressionPtr input);
  Target target(bool with_attributes);

  /// The macros that are being parsed, innermost last; names in their bodies say what they need.
  std::vector<MacroDefinition*> macros;

  /// Bounds nesting for the time that it lives.
  class Nested {
   public:
    explicit Nested(ExpressionParser& parser);
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;
    ~Nested() { --parser_.nesting_; }

   private:
    ExpressionParser& parser_;
  };

 private:
  static int height_of(const ExpressionPtr& part) { return part ? part->height() : 0; }
  template <class T>
  static int height_of(const std::vector<T>& parts) {
    int height = 0;
    for (const T& part : parts) height = std::max(height, height_of(part));
    return height;
  }
  template <class A>
  static int height_of(const std::pair<A, ExpressionPtr>& part) {
    return std::max(height_of(part.first), part.second->height());
  }
  static int height_of(const CallArguments& arguments) {
    return std::max({height_of(arguments.positional), height_of(arguments.named), height_of(arguments.list),
                     height_of(arguments.dict)});
  }
  template <class T>
  static int height_of(const T&) {
    return 0;
  }

  /// A new node over its parts. Fails where it would be too high to walk by recursion.
  template <class Node, class... Parts>
  std::unique_ptr<Node> make(int line, Parts... parts) {
    const int height = 1 + std::max({0, height_of(parts)...});
    check_height(height);
    auto node = std::make_unique<Node>(line, std::move(parts)...);
    node->set_height(height);
    return node;
  }
  void check_height(int height) const;

  ExpressionPtr conditional();
  ExpressionPtr disjunction();
  ExpressionPtr conjunction();
  ExpressionPtr negation();
  ExpressionPtr comparison();
  ExpressionPtr sum();
  ExpressionPtr concatenation();
  ExpressionPtr product();
  ExpressionPtr power();
  ExpressionPtr unary(bool with_filters = true);
  ExpressionPtr primary();
  ExpressionPtr string_literal();
  ExpressionPtr name_or_constant();
  ExpressionPtr list_display();
  ExpressionPtr dict_display();
  ExpressionPtr postfix(ExpressionPtr node);
  ExpressionPtr filters_and_tests(ExpressionPtr node);
  ExpressionPtr attribute(ExpressionPtr node);
  ExpressionPtr subscript(ExpressionPtr node);
  ExpressionPtr test(ExpressionPtr node);
  CallArguments arguments();
  void argument(CallArguments& into);
  std::string dotted_name();
  bool at_tuple_end() const;
  bool at_target_end() const { return at_tuple_end() || stream_.is_name("in") || stream_.is_operator("="); }
  bool at_slice_end() const { return stream_.is_operator("]") || stream_.is_operator(",") || stream_.is_operator(":"); }
  Target single_target(bool with_attributes);

  TokenStream& stream_;
  int nesting_ = 0;
};

}  // namespace mneme::jinja
