#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mneme/text/template_object.h"

namespace mneme::jinja {

/// The arguments of one call matched with the names of a built-in's parameters, as Python matches them.
class Parameters {
 public:
  /// Throws Fault for an argument too many, an unknown keyword or one given twice, or fewer than `n_required`.
  Parameters(std::string_view function, Arguments arguments, std::initializer_list<std::string_view> names,
             std::size_t n_required = 0);

  bool has(std::size_t i) const { return values_[i].has_value(); }
  /// The value, or None where it was not given.
  Value value(std::size_t i) const { return values_[i].value_or(Value(None{})); }
  Value value(std::size_t i, Value otherwise) const { return values_[i].value_or(std::move(otherwise)); }
  bool truthy(std::size_t i) const { return values_[i] && values_[i]->truthy(); }
  /// Throw Fault where the value has another type.
  std::int64_t integer(std::size_t i, std::int64_t otherwise) const;
  std::string text(std::size_t i, std::string_view otherwise = "") const;
  /// The text, or nothing where it was not given or is None.
  std::optional<std::string> optional_text(std::size_t i) const;

 private:
  std::string function_;
  std::vector<std::optional<Value>> values_;
};

}  // namespace mneme::jinja
