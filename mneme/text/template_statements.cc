#include "mneme/text/template_statements.h"

#include "mneme/text/template_fault.h"
#include "mneme/text/template_format.h"
#include "mneme/text/template_loop.h"
#include "mneme/text/template_macro.h"

namespace mneme::jinja {

void Body::run(Run& run) const {
  for (const StatementPtr& statement : statements) {
    statement->run(run);
    if (run.jump != Run::Jump::kNone) return;
  }
}

std::string Body::render(Run& run) const {
  const Run::Inside scope(run);
  Run::Capture capture(run);
  this->run(run);
  return capture.take();
}

void Target::assign(Run& run, const Value& value) const {
  if (is_tuple) {
    const std::vector<Value> parts = iterate(run, value);
    if (parts.size() != items.size()) {
      fail("cannot unpack {} values into {} names", parts.size(), items.size());
    }
    for (std::size_t i = 0; i < items.size(); ++i) items[i].assign(run, parts[i]);
  } else if (attribute.empty()) {
    run.assign(name, value);
  } else {
    const Value object = run.lookup(name);
    auto* target = object.object_as<Namespace>();
    if (!target) fail("cannot assign attribute on non-namespace object '{}'", name);
    if (attribute.starts_with('_')) fail("a namespace cannot store '{}': it starts with an underscore", attribute);
    run.build(sizeof(Dict::Entry));
    target->set(attribute, value);
  }
}

void Print::execute(Run& run) const { run.write(to_text(run, expression_->eval(run))); }

void If::execute(Run& run) const {
  for (const Branch& branch : branches_) {
    if (branch.test->eval(run).truthy()) return branch.body.run(run);
  }
  otherwise_.run(run);
}

std::vector<Value> For::items(Run& run) const {
  std::vector<Value> all = iterate(run, parts_.items->eval(run));
  if (!parts_.test) return all;
  std::vector<Value> kept;
  for (Value& item : all) {
    const Run::Inside scope(run);
    parts_.target.assign(run, item);
    if (parts_.test->eval(run).truthy()) kept.push_back(std::move(item));
  }
  return kept;
}

void For::execute(Run& run) const {
  const auto loop = std::make_shared<Loop>(items(run));
  bool completed = false;
  while (loop->next()) {
    const Run::Inside scope(run);
    run.assign("loop", Value(loop));
    parts_.target.assign(run, loop->item());
    parts_.body.run(run);
    const Run::Jump jump = std::exchange(run.jump, Run::Jump::kNone);
    if (jump == Run::Jump::kBreak) break;
    completed = completed || jump == Run::Jump::kNone;
  }
  // Parity: Jinja runs `else` unless some turn came to the end of the body, so after `break` in the first turn as well.
  if (!completed) {
    const Run::Inside scope(run);
    parts_.otherwise.run(run);
  }
}

void SetBlock::execute(Run& run) const {
  Value text = run.text(body_.render(run));
  if (filter_) {
    const Run::Inside scope(run);
    run.assign(BlockText::kVariable, text);
    text = filter_->eval(run);
  }
  target_.assign(run, text);
}

void FilterBlock::execute(Run& run) const {
  const Run::Inside scope(run);
  run.assign(BlockText::kVariable, run.text(body_.render(run)));
  run.write(to_text(run, filter_->eval(run)));
}

void With::execute(Run& run) const {
  std::vector<Value> values;
  for (const auto& [target, value] : bindings_) values.push_back(value->eval(run));
  const Run::Inside scope(run);
  for (std::size_t i = 0; i < values.size(); ++i) bindings_[i].first.assign(run, values[i]);
  body_.run(run);
}

void Section::execute(Run& run) const {
  if (sees_scope_) {
    const Run::Inside scope(run);
    body_.run(run);
  } else {
    const Run::Inside scope(run, run.root_scope());
    body_.run(run);
  }
}

void MacroStatement::execute(Run& run) const {
  run.assign(macro_->name, Value(std::make_shared<Macro>(macro_, run.capture_scope())));
}

void CallBlock::execute(Run& run) const {
  const Value caller(std::make_shared<Macro>(caller_, run.capture_scope()));
  run.write(to_text(run, call_->call(run, caller)));
}

}  // namespace mneme::jinja
