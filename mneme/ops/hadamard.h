#pragma once

#include <cstdint>

#include "mneme/ops/workspace.h"

namespace mneme::ops {

/// The orthonormal Walsh-Hadamard rotation of heads: each run of the largest power of two that divides `dim`, m
/// numbers, becomes H x / sqrt(m). It spreads an outlier over its whole run, which few bits then store better, and
/// undoes itself. (Ashkboos et al. 2024, arXiv:2404.00456, rotate values so.)

/// Heads of rows x [N, ..], head h at x[n][offset + h * dim ..], rotated: [N, n_heads * dim] of scratch memory.
Rows rotated(Workspace& workspace, const Rows& x, std::int64_t offset, std::int64_t n_heads, std::int64_t dim);

/// Rotates heads [N, n_heads * dim] in place.
void rotate_heads(Workspace& workspace, const Rows& x, std::int64_t n_heads, std::int64_t dim);

/// The same for a tensor [.., dim] of any dtype: computed in float32, rounded once.
at::Tensor rotated(const at::Tensor& x);

}  // namespace mneme::ops
