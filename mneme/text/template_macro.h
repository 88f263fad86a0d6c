#pragma once

#include <memory>
#include <string>
#include <utility>

#include "mneme/text/template_ast.h"
#include "mneme/text/template_object.h"

namespace mneme::jinja {

/// What {% macro %} defines: a function that returns what its body writes. It sees the scope it was defined in.
class Macro final : public Object {
 public:
  Macro(std::shared_ptr<const MacroDefinition> definition, std::shared_ptr<Scope> scope)
      : definition_(std::move(definition)), scope_(std::move(scope)) {}

  std::string type_name() const override { return "Macro"; }
  std::string repr(Run& run) const override;
  bool callable() const override { return true; }
  Value call(Run& run, Arguments arguments) override;
  std::optional<Value> attribute(Run& run, std::string_view name) override;

 private:
  void bind(Run& run, Arguments& arguments) const;
  void bind_rest(Run& run, Arguments& arguments) const;

  std::shared_ptr<const MacroDefinition> definition_;
  std::shared_ptr<Scope> scope_;
};

}  // namespace mneme::jinja
