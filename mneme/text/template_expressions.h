#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mneme/text/template_ast.h"
#include "mneme/text/template_operators.h"

/// The kinds of expressions.
namespace mneme::jinja {

class Literal final : public Expression {
 public:
  Literal(int line, Value value) : Expression(line), value_(std::move(value)) {}

 private:
  Value evaluate(Run& run) const override;
  Value value_;
};

class Name final : public Expression {
 public:
  Name(int line, std::string name) : Expression(line), name_(std::move(name)) {}
  const std::string& name() const { return name_; }

 private:
  Value evaluate(Run& run) const override;
  std::string name_;
};

/// [a, b] or (a, b).
class ListDisplay final : public Expression {
 public:
  ListDisplay(int line, Sequence::Kind kind, std::vector<ExpressionPtr> items)
      : Expression(line), kind_(kind), items_(std::move(items)) {}

 private:
  Value evaluate(Run& run) const override;
  Sequence::Kind kind_;
  std::vector<ExpressionPtr> items_;
};

/// {a: b}.
class DictDisplay final : public Expression {
 public:
  using Item = std::pair<ExpressionPtr, ExpressionPtr>;
  DictDisplay(int line, std::vector<Item> items) : Expression(line), items_(std::move(items)) {}

 private:
  Value evaluate(Run& run) const override;
  std::vector<Item> items_;
};

/// -a, +a or not a.
class Unary final : public Expression {
 public:
  Unary(int line, char sign, ExpressionPtr operand) : Expression(line), sign_(sign), operand_(std::move(operand)) {}

 private:
  Value evaluate(Run& run) const override;
  char sign_;  // '-', '+' or '!'
  ExpressionPtr operand_;
};

class Binary final : public Expression {
 public:
  Binary(int line, Arithmetic op, ExpressionPtr left, ExpressionPtr right)
      : Expression(line), op_(op), left_(std::move(left)), right_(std::move(right)) {}

 private:
  Value evaluate(Run& run) const override;
  Arithmetic op_;
  ExpressionPtr left_, right_;
};

/// a and b, a or b: the operand that decides.
class Logical final : public Expression {
 public:
  Logical(int line, bool is_and, ExpressionPtr left, ExpressionPtr right)
      : Expression(line), is_and_(is_and), left_(std::move(left)), right_(std::move(right)) {}

 private:
  Value evaluate(Run& run) const override;
  bool is_and_;
  ExpressionPtr left_, right_;
};

/// a < b <= c: each pair must hold, each operand is evaluated once.
class Compare final : public Expression {
 public:
  using Operand = std::pair<Comparison, ExpressionPtr>;
  Compare(int line, ExpressionPtr first, std::vector<Operand> rest)
      : Expression(line), first_(std::move(first)), rest_(std::move(rest)) {}

 private:
  Value evaluate(Run& run) const override;
  ExpressionPtr first_;
  std::vector<Operand> rest_;
};

/// a ~ b ~ c.
class Concat final : public Expression {
 public:
  Concat(int line, std::vector<ExpressionPtr> parts) : Expression(line), parts_(std::move(parts)) {}

 private:
  Value evaluate(Run& run) const override;
  std::vector<ExpressionPtr> parts_;
};

/// a if b else c; without else it is undefined where b is false.
class Conditional final : public Expression {
 public:
  Conditional(int line, ExpressionPtr test, ExpressionPtr yes, ExpressionPtr no)
      : Expression(line), test_(std::move(test)), yes_(std::move(yes)), no_(std::move(no)) {}

 private:
  Value evaluate(Run& run) const override;
  ExpressionPtr test_, yes_, no_;
};

/// a.name
class Attribute final : public Expression {
 public:
  Attribute(int line, ExpressionPtr of, std::string name)
      : Expression(line), of_(std::move(of)), name_(std::move(name)) {}

 private:
  Value evaluate(Run& run) const override;
  ExpressionPtr of_;
  std::string name_;
};

/// a[b]
class Subscript final : public Expression {
 public:
  Subscript(int line, ExpressionPtr of, ExpressionPtr index)
      : Expression(line), of_(std::move(of)), index_(std::move(index)) {}

 private:
  Value evaluate(Run& run) const override;
  ExpressionPtr of_, index_;
};

/// a[b:c:d], any of which may be left out.
class Slice final : public Expression {
 public:
  Slice(int line, ExpressionPtr of, ExpressionPtr start, ExpressionPtr stop, ExpressionPtr step)
      : Expression(line),
        of_(std::move(of)),
        start_(std::move(start)),
        stop_(std::move(stop)),
        step_(std::move(step)) {}

 private:
  Value evaluate(Run& run) const override;
  ExpressionPtr of_, start_, stop_, step_;
};

class Call final : public Expression {
 public:
  Call(int line, ExpressionPtr callee, CallArguments arguments)
      : Expression(line), callee_(std::move(callee)), arguments_(std::move(arguments)) {}
  /// Calls with `caller` as one more keyword, as {% call %} does.
  Value call(Run& run, std::optional<Value> caller) const;

 private:
  Value evaluate(Run& run) const override { return call(run, std::nullopt); }
  ExpressionPtr callee_;
  CallArguments arguments_;
};

/// a | name(...).
class Filter final : public Expression {
 public:
  Filter(int line, ExpressionPtr input, std::string name, CallArguments arguments)
      : Expression(line), input_(std::move(input)), name_(std::move(name)), arguments_(std::move(arguments)) {}

 private:
  Value evaluate(Run& run) const override;
  ExpressionPtr input_;
  std::string name_;
  CallArguments arguments_;
};

/// a is name(...).
class Test final : public Expression {
 public:
  Test(int line, ExpressionPtr input, std::string name, CallArguments arguments)
      : Expression(line), input_(std::move(input)), name_(std::move(name)), arguments_(std::move(arguments)) {}

 private:
  Value evaluate(Run& run) const override;
  ExpressionPtr input_;
  std::string name_;
  CallArguments arguments_;
};

/// The text that a {% filter %} or filtered {% set %} block captured, where its first filter finds it.
class BlockText final : public Expression {
 public:
  explicit BlockText(int line) : Expression(line) {}
  static constexpr const char* kVariable = "{block}";  ///< no template can write this name

 private:
  Value evaluate(Run& run) const override { return run.lookup(kVariable); }
};

}  // namespace mneme::jinja
