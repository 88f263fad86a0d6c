#include "mneme/text/template_macro.h"

#include <algorithm>

#include "mneme/text/template_fault.h"

namespace mneme::jinja {
namespace {

// Takes the keyword argument `name` out of the call.
std::optional<Value> take_named(Arguments& arguments, const std::string& name) {
  auto& named = arguments.named;
  const auto it = std::find_if(named.begin(), named.end(), [&](const auto& entry) { return entry.first == name; });
  if (it == named.end()) return std::nullopt;
  Value value = std::move(it->second);
  named.erase(it);
  return value;
}

}  // namespace

std::string Macro::repr(Run&) const {
  return definition_->name.empty() ? "<Macro anonymous>" : fmt::format("<Macro '{}'>", definition_->name);
}

std::optional<Value> Macro::attribute(Run&, std::string_view name) {
  if (name == "name") return definition_->name.empty() ? Value(None{}) : Value(definition_->name);
  if (name == "caller") return Value(definition_->uses_caller);
  if (name == "catch_kwargs") return Value(definition_->uses_kwargs);
  if (name == "catch_varargs") return Value(definition_->uses_varargs);
  return std::nullopt;
}

Value Macro::call(Run& run, Arguments arguments) {
  const Run::Inside scope(run, scope_);
  bind(run, arguments);
  Run::Capture capture(run);
  definition_->body.run(run);
  return run.text(capture.take());
}

void Macro::bind(Run& run, Arguments& arguments) const {
  const auto& parameters = definition_->parameters;
  const std::size_t n_given = std::min(arguments.positional.size(), parameters.size());
  std::vector<std::optional<Value>> values(parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    values[i] = i < n_given ? std::move(arguments.positional[i]) : take_named(arguments, parameters[i].name);
  }
  arguments.positional.erase(arguments.positional.begin(),
                             arguments.positional.begin() + static_cast<std::ptrdiff_t>(n_given));
  bind_rest(run, arguments);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (values[i]) run.assign(parameters[i].name, *std::move(values[i]));
  }
  // Defaults see the parameters before them.
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& [name, default_value] = parameters[i];
    if (values[i]) continue;
    run.assign(name, default_value ? default_value->eval(run)
                                   : Value::undefined(fmt::format("parameter '{}' was not provided", name)));
  }
}

void Macro::bind_rest(Run& run, Arguments& arguments) const {
  if (definition_->uses_caller) {
    auto caller = take_named(arguments, "caller");
    run.assign("caller", caller ? *std::move(caller) : Value::undefined("No caller defined"));
  }
  if (definition_->uses_kwargs) {
    Dict kwargs;
    for (auto& [name, value] : arguments.named) kwargs.set(name, std::move(value));
    run.assign("kwargs", run.dict(std::move(kwargs)));
  } else if (!arguments.named.empty()) {
    fail("macro '{}' takes no keyword argument '{}'", definition_->name, arguments.named.front().first);
  }
  if (definition_->uses_varargs) {
    run.assign("varargs", run.list(std::move(arguments.positional), Sequence::Kind::kTuple));
  } else if (!arguments.positional.empty()) {
    fail("macro '{}' takes not more than {} argument(s)", definition_->name, definition_->parameters.size());
  }
}

}  // namespace mneme::jinja
