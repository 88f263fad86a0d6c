#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mneme/text/template_value.h"

namespace mneme::jinja {

class Run;

/// The arguments of one call: f(1, 2, key=3).
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

/// What is neither data nor text: functions, macros, namespaces, `loop`. One class for each, in template_globals.cc,
/// template_macro.h and template_loop.h.
class Object {
 public:
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() = default;

  virtual std::string type_name() const = 0;
  /// What printing it shows.
  virtual std::string repr(Run& run) const;
  virtual bool callable() const { return false; }
  /// Throws Fault unless callable().
  virtual Value call(Run& run, Arguments arguments);
  /// The attribute `name`, if the object has it.
  virtual std::optional<Value> attribute(Run& run, std::string_view name);
  virtual std::optional<std::size_t> length() const { return std::nullopt; }
  /// How deep the values nest that it keeps for good (see kMaxNesting).
  virtual int nesting() const { return 0; }
};

/// A function of the interpreter itself: range, a method bound to its receiver, loop.cycle.
using NativeFunction = Value (*)(Run& run, const Value& receiver, Arguments arguments);

class Function final : public Object {
 public:
  Function(std::string name, NativeFunction function, Value receiver = {})
      : name_(std::move(name)), function_(function), receiver_(std::move(receiver)) {}

  std::string type_name() const override { return "builtin_function_or_method"; }
  std::string repr(Run& run) const override;
  bool callable() const override { return true; }
  Value call(Run& run, Arguments arguments) override { return function_(run, receiver_, std::move(arguments)); }
  int nesting() const override { return receiver_.nesting() + 1; }

 private:
  std::string name_;
  NativeFunction function_;
  Value receiver_;
};

/// namespace(): the one value whose attributes a template can set. Cycles through it are cut when the run ends.
class Namespace final : public Object {
 public:
  explicit Namespace(Dict attributes) : attributes_(std::move(attributes)) {}

  std::string type_name() const override { return "namespace"; }
  std::string repr(Run& run) const override;
  std::optional<Value> attribute(Run& run, std::string_view name) override;
  void set(const std::string& name, Value value) { attributes_.set(name, std::move(value)); }
  void clear() { attributes_ = Dict(); }

 private:
  Dict attributes_;
};

}  // namespace mneme::jinja
