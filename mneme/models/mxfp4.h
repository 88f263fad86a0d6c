#pragma once

#include "mneme/models/loading.h"

namespace mneme {

/// Rows of a matrix in MXFP4 as safetensors keep it: blocks [.., rows, columns / 32, 16] of bytes, each with an even
/// number in its low and the next odd one in its high bits, and scales [.., rows, columns / 32], the exponents of
/// blocks of 32. Both must outlive this. Throws Error(kUnsupported) unless both are bytes. Source: OCP Microscaling
/// specification 1.0; gpt-oss model card, arXiv:2508.10925.
WeightRows mxfp4_rows(const StoredTensor& blocks, const StoredTensor& scales);

}  // namespace mneme
