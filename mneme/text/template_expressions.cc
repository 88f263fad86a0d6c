#include "mneme/text/template_expressions.h"

#include "mneme/text/template_fault.h"
#include "mneme/text/template_filters.h"
#include "mneme/text/template_format.h"
#include "mneme/text/template_tests.h"

namespace mneme::jinja {
namespace {

std::optional<std::int64_t> slice_part(Run& run, const ExpressionPtr& expression) {
  if (!expression) return std::nullopt;
  const Value value = expression->eval(run);
  if (value.is_none()) return std::nullopt;
  if (value.is_undefined()) fail("{}", value.undefined_message());
  const auto integer = value.integer();
  if (!integer) fail("slice indices must be integers or None, not {}", value.type_name());
  return integer;
}

void add_named(Arguments& arguments, const std::string& name, Value value) {
  for (const auto& [known, unused] : arguments.named) {
    if (known == name) fail("got multiple values for keyword argument '{}'", name);
  }
  arguments.named.emplace_back(name, std::move(value));
}

}  // namespace

Arguments CallArguments::eval(Run& run) const {
  Arguments result;
  result.positional.reserve(positional.size());
  for (const auto& argument : positional) result.positional.push_back(argument->eval(run));
  for (const auto& [name, argument] : named) result.named.emplace_back(name, argument->eval(run));
  if (list) {
    for (Value& item : iterate(run, list->eval(run))) result.positional.push_back(std::move(item));
  }
  if (dict) {
    const Value rest = dict->eval(run);
    if (!rest.dict()) fail("argument after ** must be a mapping, not {}", rest.type_name());
    for (const auto& [canonical, key, value] : rest.dict()->entries()) {
      if (!key.text()) fail("keywords must be strings, not {}", key.type_name());
      run.step(1 + result.named.size());
      add_named(result, *key.text(), value);
    }
  }
  return result;
}

Value Literal::evaluate(Run&) const { return value_; }

Value Name::evaluate(Run& run) const { return run.lookup(name_); }

Value ListDisplay::evaluate(Run& run) const {
  std::vector<Value> items;
  items.reserve(items_.size());
  for (const auto& item : items_) items.push_back(item->eval(run));
  return run.list(std::move(items), kind_);
}

Value DictDisplay::evaluate(Run& run) const {
  Dict dict;
  for (const auto& [key_expression, value_expression] : items_) {
    Value key = key_expression->eval(run);
    Text canonical = canonical_key(run, key);
    dict.set(std::move(canonical), std::move(key), value_expression->eval(run));
  }
  return run.dict(std::move(dict));
}

Value Unary::evaluate(Run& run) const {
  const Value operand = operand_->eval(run);
  if (sign_ == '!') return !operand.truthy();
  return sign_ == '-' ? negate(operand) : plus(operand);
}

Value Binary::evaluate(Run& run) const {
  const Value left = left_->eval(run);
  return arithmetic(run, op_, left, right_->eval(run));
}

Value Logical::evaluate(Run& run) const {
  Value left = left_->eval(run);
  return left.truthy() == is_and_ ? right_->eval(run) : left;
}

Value Compare::evaluate(Run& run) const {
  Value left = first_->eval(run);
  for (const auto& [op, operand] : rest_) {
    Value right = operand->eval(run);
    if (!compare(run, op, left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Concat::evaluate(Run& run) const {
  TextBuilder text(run);
  for (const auto& part : parts_) text.append(to_text(run, part->eval(run)));
  return Value(text.take());
}

Value Conditional::evaluate(Run& run) const {
  if (test_->eval(run).truthy()) return yes_->eval(run);
  if (no_) return no_->eval(run);
  return Value::undefined("the inline if-expression evaluated to false and no else section was defined.");
}

Value Attribute::evaluate(Run& run) const { return get_attribute(run, of_->eval(run), name_); }

Value Subscript::evaluate(Run& run) const {
  const Value of = of_->eval(run);
  return get_item(run, of, index_->eval(run));
}

Value Slice::evaluate(Run& run) const {
  const Value of = of_->eval(run);
  SliceBounds bounds;
  bounds.start = slice_part(run, start_);
  bounds.stop = slice_part(run, stop_);
  bounds.step = slice_part(run, step_).value_or(1);
  return slice(run, of, bounds);
}

Value Call::call(Run& run, std::optional<Value> caller) const {
  const Value callee = callee_->eval(run);
  Arguments arguments = arguments_.eval(run);
  if (caller) add_named(arguments, "caller", *std::move(caller));
  return jinja::call(run, callee, std::move(arguments));
}

Value Filter::evaluate(Run& run) const {
  const Value input = input_->eval(run);
  return apply_filter(run, name_, input, arguments_.eval(run));
}

Value Test::evaluate(Run& run) const {
  const Value input = input_->eval(run);
  return apply_test(run, name_, input, arguments_.eval(run));
}

}  // namespace mneme::jinja
