#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mneme/text/template_object.h"
#include "mneme/text/template_run.h"
#include "mneme/text/template_value.h"

namespace mneme::jinja {

/// A parsed expression. Each node class evaluates itself: template_expressions.cc.
class Expression {
 public:
  explicit Expression(int line) : line_(line) {}
  Expression(const Expression&) = delete;
  Expression& operator=(const Expression&) = delete;
  virtual ~Expression() = default;

  Value eval(Run& run) const {
    const Run::Level level(run, line_);
    return evaluate(run);
  }
  int line() const { return line_; }
  /// Levels of expressions in it, which the parser bounds.
  int height() const { return height_; }
  void set_height(int height) { height_ = height; }

 private:
  virtual Value evaluate(Run& run) const = 0;

  int line_;
  int height_ = 1;
};

/// A parsed tag, or the text and values between tags: template_statements.cc.
class Statement {
 public:
  explicit Statement(int line) : line_(line) {}
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  virtual ~Statement() = default;

  void run(Run& run) const {
    const Run::Level level(run, line_);
    execute(run);
  }

 private:
  virtual void execute(Run& run) const = 0;

  int line_;
};

using ExpressionPtr = std::unique_ptr<const Expression>;
using StatementPtr = std::unique_ptr<const Statement>;

/// The statements between two tags, run in order until one of them jumps.
struct Body {
  std::vector<StatementPtr> statements;

  void run(Run& run) const;
  /// Runs in a scope of its own and returns what was written.
  std::string render(Run& run) const;
};

/// Where `for`, `set` and `with` put a value: a name, ns.attribute, or a tuple of these.
struct Target {
  std::string name;
  std::string attribute;      ///< of the namespace `name`; empty for a plain name
  std::vector<Target> items;  ///< of a tuple, which has no name
  bool is_tuple = false;

  /// Throws Fault where the value does not unpack into this many parts, or `name` is no namespace.
  void assign(Run& run, const Value& value) const;
};

/// The arguments as written: f(a, b=c, *d, **e).
struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr list;  ///< after "*", may be null
  ExpressionPtr dict;  ///< after "**", may be null

  Arguments eval(Run& run) const;
};

/// What {% macro %} and {% call %} declare. Shared, as macro values outlive the statement that made them.
struct MacroDefinition {
  struct Parameter {
    std::string name;
    ExpressionPtr default_value;  ///< may be null
  };

  std::string name;
  std::vector<Parameter> parameters;
  Body body;
  bool uses_varargs = false;
  bool uses_kwargs = false;
  bool uses_caller = false;
};

}  // namespace mneme::jinja
