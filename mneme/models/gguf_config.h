#pragma once

#include "mneme/base/gguf_file.h"
#include "mneme/base/json.h"

namespace mneme {

/// The metadata of a GGUF model as the config.json that a Hugging Face checkpoint of it would have. Tensors decide what
/// no key says: the vocabulary (rows of the embedding), a tied head (no output.weight), biases, and Llama 3's rotary
/// scaling, of which the file keeps the factors only. An architecture without a row of defaults gives its model_type.
/// Throws Error(kCorruptData) naming file and key if a size is missing or of another type; Error(kUnsupported) for
/// experts of architectures that have none here, for values of another size than keys, for rotary factors that are not
/// Llama 3's, and for Falcon Mamba's norms.
Json config_from_gguf(const GgufFile& file);

}  // namespace mneme
