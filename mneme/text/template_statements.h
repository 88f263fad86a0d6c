#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mneme/text/template_ast.h"
#include "mneme/text/template_expressions.h"

/// The kinds of statements.
namespace mneme::jinja {

/// Text outside of tags.
class Data final : public Statement {
 public:
  Data(int line, std::string text) : Statement(line), text_(std::move(text)) {}

 private:
  void execute(Run& run) const override { run.write(text_); }
  std::string text_;
};

/// {{ expression }}
class Print final : public Statement {
 public:
  Print(int line, ExpressionPtr expression) : Statement(line), expression_(std::move(expression)) {}

 private:
  void execute(Run& run) const override;
  ExpressionPtr expression_;
};

class If final : public Statement {
 public:
  struct Branch {
    ExpressionPtr test;
    Body body;
  };
  If(int line, std::vector<Branch> branches, Body otherwise)
      : Statement(line), branches_(std::move(branches)), otherwise_(std::move(otherwise)) {}

 private:
  void execute(Run& run) const override;
  std::vector<Branch> branches_;
  Body otherwise_;
};

class For final : public Statement {
 public:
  struct Parts {
    Target target;
    ExpressionPtr items;
    ExpressionPtr test;  ///< after `if`, may be null
    Body body;
    Body otherwise;  ///< runs if no turn of the loop came to its end
  };
  For(int line, Parts parts) : Statement(line), parts_(std::move(parts)) {}

 private:
  void execute(Run& run) const override;
  std::vector<Value> items(Run& run) const;
  Parts parts_;
};

/// {% break %} or {% continue %}
class LoopJump final : public Statement {
 public:
  LoopJump(int line, Run::Jump jump) : Statement(line), jump_(jump) {}

 private:
  void execute(Run& run) const override { run.jump = jump_; }
  Run::Jump jump_;
};

/// {% set target = value %}
class Set final : public Statement {
 public:
  Set(int line, Target target, ExpressionPtr value)
      : Statement(line), target_(std::move(target)), value_(std::move(value)) {}

 private:
  void execute(Run& run) const override { target_.assign(run, value_->eval(run)); }
  Target target_;
  ExpressionPtr value_;
};

/// {% set target | filter %}...{% endset %}; `filter` starts at a BlockText, and may be null.
class SetBlock final : public Statement {
 public:
  SetBlock(int line, Target target, ExpressionPtr filter, Body body)
      : Statement(line), target_(std::move(target)), filter_(std::move(filter)), body_(std::move(body)) {}

 private:
  void execute(Run& run) const override;
  Target target_;
  ExpressionPtr filter_;
  Body body_;
};

/// {% filter f %}...{% endfilter %}
class FilterBlock final : public Statement {
 public:
  FilterBlock(int line, ExpressionPtr filter, Body body)
      : Statement(line), filter_(std::move(filter)), body_(std::move(body)) {}

 private:
  void execute(Run& run) const override;
  ExpressionPtr filter_;
  Body body_;
};

/// {% with a = b %}: all values are evaluated outside of the new scope.
class With final : public Statement {
 public:
  using Binding = std::pair<Target, ExpressionPtr>;
  With(int line, std::vector<Binding> bindings, Body body)
      : Statement(line), bindings_(std::move(bindings)), body_(std::move(body)) {}

 private:
  void execute(Run& run) const override;
  std::vector<Binding> bindings_;
  Body body_;
};

/// {% generation %} marks what the model writes; rendered, it is its body. {% block %} is its body too, since no
/// template can extend another here; unless `scoped` it sees the variables of the template's top level only.
class Section final : public Statement {
 public:
  Section(int line, bool sees_scope, Body body) : Statement(line), sees_scope_(sees_scope), body_(std::move(body)) {}

 private:
  void execute(Run& run) const override;
  bool sees_scope_;
  Body body_;
};

class MacroStatement final : public Statement {
 public:
  MacroStatement(int line, std::shared_ptr<const MacroDefinition> macro) : Statement(line), macro_(std::move(macro)) {}

 private:
  void execute(Run& run) const override;
  std::shared_ptr<const MacroDefinition> macro_;
};

/// {% call(x) macro(...) %}...{% endcall %}
class CallBlock final : public Statement {
 public:
  CallBlock(int line, std::unique_ptr<const Call> call, std::shared_ptr<const MacroDefinition> caller)
      : Statement(line), call_(std::move(call)), caller_(std::move(caller)) {}

 private:
  void execute(Run& run) const override;
  std::unique_ptr<const Call> call_;
  std::shared_ptr<const MacroDefinition> caller_;
};

}  // namespace mneme::jinja
