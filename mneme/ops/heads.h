#pragma once

#include <cstdint>

#include "mneme/ops/workspace.h"

namespace mneme::ops {

/// to[h * N + n] = from[n][offset + h * stride ..], heads of to.width numbers; to [n_heads * N, ..]: head by head, so
/// that each may go through a matrix of its own.
void split_heads(Workspace& workspace, const Rows& from, std::int64_t offset, std::int64_t stride, std::int64_t n_heads,
                 const Rows& to);

/// The reverse: to[n][offset + h * stride ..] = from[h * N + n].
void join_heads(Workspace& workspace, const Rows& from, std::int64_t n_heads, const Rows& to, std::int64_t offset,
                std::int64_t stride);

}  // namespace mneme::ops
