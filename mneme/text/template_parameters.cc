#include "mneme/text/template_parameters.h"

#include <algorithm>
#include <utility>

#include "mneme/text/template_fault.h"

namespace mneme::jinja {

Parameters::Parameters(std::string_view function, Arguments arguments, std::initializer_list<std::string_view> names,
                       std::size_t n_required)
    : function_(function), values_(names.size()) {
  const std::size_t n_positional = arguments.positional.size();
  if (n_positional > names.size()) {
    fail("{}() takes at most {} argument(s), {} given", function, names.size(), n_positional);
  }
  std::move(arguments.positional.begin(), arguments.positional.end(), values_.begin());
  for (auto& [name, value] : arguments.named) {
    const auto at = static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
    if (at == names.size() || name.empty()) fail("{}() got an unexpected keyword argument '{}'", function, name);
    if (values_[at]) fail("{}() got multiple values for argument '{}'", function, name);
    values_[at] = std::move(value);
  }
  for (std::size_t i = 0; i < n_required; ++i) {
    if (!values_[i]) fail("{}() misses a required argument: number {} of {}", function, i + 1, n_required);
  }
}

std::int64_t Parameters::integer(std::size_t i, std::int64_t otherwise) const {
  if (!values_[i]) return otherwise;
  if (values_[i]->is_undefined()) fail("{}", values_[i]->undefined_message());
  const auto integer = values_[i]->integer();
  if (!integer) fail("{}(): an integer is needed, not '{}'", function_, values_[i]->type_name());
  return *integer;
}

std::string Parameters::text(std::size_t i, std::string_view otherwise) const {
  if (!values_[i]) return std::string(otherwise);
  if (values_[i]->is_undefined()) fail("{}", values_[i]->undefined_message());
  if (!values_[i]->text()) fail("{}(): a string is needed, not '{}'", function_, values_[i]->type_name());
  return *values_[i]->text();
}

std::optional<std::string> Parameters::optional_text(std::size_t i) const {
  if (!values_[i] || values_[i]->is_none()) return std::nullopt;
  return text(i);
}

}  // namespace mneme::jinja
