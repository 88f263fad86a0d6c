#pragma once

#include <string_view>

#include "mneme/base/json.h"

namespace mneme {

/// The keys that the configuration class of a model type has, with the values they take when config.json leaves them
/// out; an empty object for a type without a row. A key outside the row means nothing to that type.
/// Source: the configuration classes of transformers 5.23.
const Json& config_defaults(std::string_view model_type);

/// The keys of a model type that other types name otherwise: {"hidden_size": ["d_model"]}. Of several keys the first
/// counts that is not null. Source: `attribute_map` of the same classes.
const Json& config_aliases(std::string_view model_type);

}  // namespace mneme
