#pragma once

#include "mneme/models/config.h"
#include "mneme/models/config_keys.h"

namespace mneme {

/// Reads `rope` and `sliding_rope`. `keys` are those of the model type, `json` is the whole file.
/// Throws Error(kCorruptData) for numbers that cannot be or are missing, naming file and key.
void read_rope(const ConfigKeys& keys, const Json& json, ModelConfig& config);

}  // namespace mneme
