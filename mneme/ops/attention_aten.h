#pragma once

#include <cstdint>
#include <span>

#include "mneme/ops/attention.h"

namespace mneme::ops {

/// `attend` for devices that have no kernels of ours: gathers what a sequence sees and multiplies with ATen. Costs a
/// copy of the visible keys and values, and a mask where rows see different extents.
void attend_through_aten(Workspace& workspace, std::span<const AttendSequence> sequences, const AttendOptions& options,
                         const Rows& q, std::int64_t q_offset, const Rows& out);

}  // namespace mneme::ops
