#pragma once

#include <functional>

#include "mneme/generate/config.h"
#include "mneme/generate/output.h"

namespace mneme {

/// Runs a generation; where it is out of memory and the options allow it, once more with an offloaded cache. Tokens are
/// the same both times, and each is streamed once. Warns when it falls back.
GenerateOutput with_fallback(
    const GenerationSettings& settings, const GenerateOptions& options,
    const std::function<GenerateOutput(const GenerationSettings&, const GenerateOptions&)>& run);

}  // namespace mneme
