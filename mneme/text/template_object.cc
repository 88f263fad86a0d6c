#include "mneme/text/template_object.h"

#include "mneme/text/template_fault.h"
#include "mneme/text/template_format.h"

namespace mneme::jinja {

std::string Object::repr(Run&) const { return fmt::format("<{} object>", type_name()); }

Value Object::call(Run&, Arguments) { fail("'{}' object is not callable", type_name()); }

std::optional<Value> Object::attribute(Run&, std::string_view) { return std::nullopt; }

std::string Function::repr(Run&) const { return fmt::format("<function {}>", name_); }

std::string Namespace::repr(Run& run) const {
  return fmt::format("<Namespace {}>", jinja::repr(run, run.dict(attributes_)));
}

std::optional<Value> Namespace::attribute(Run&, std::string_view name) {
  const Value* found = attributes_.find(name);
  return found ? std::optional<Value>(*found) : std::nullopt;
}

}  // namespace mneme::jinja
