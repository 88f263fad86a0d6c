#pragma once

#include <cstddef>

namespace mneme {

/// What a layer does with the past: what its attention may see of it, or that it keeps a state instead.
enum class LayerType { kFullAttention, kSlidingAttention, kChunkedAttention, kConv, kLinearAttention };

}  // namespace mneme
