#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <span>

#include "mneme/ops/workspace.h"

namespace mneme::ops {

/// x = factor * x
void scale(Workspace& workspace, float factor, const Rows& x);

/// x[i] = factors[i] * x[i] for the columns [offset, offset + width) of every row; factors [x.n] on the host.
void scale_rows(Workspace& workspace, const float* factors, std::int64_t offset, std::int64_t width, const Rows& x);

/// x[.., j] = factors[j] * x[.., j]; factors [x.width] float32 on the workspace's device.
void scale_columns(Workspace& workspace, const at::Tensor& factors, const Rows& x);

/// x = x * y, where y are the columns [offset, offset + x.width) of rows as many.
void multiply(Workspace& workspace, const Rows& y, std::int64_t offset, const Rows& x);

/// x = x * sigmoid(gate), where the gates are the columns [offset, offset + x.width) of rows as many.
void multiply_sigmoid(Workspace& workspace, const Rows& gate, std::int64_t offset, const Rows& x);
/// The same with silu(gate).
void multiply_silu(Workspace& workspace, const Rows& gate, std::int64_t offset, const Rows& x);

/// to = the columns [offset, offset + to.width) of rows as many.
void copy_columns(Workspace& workspace, const Rows& from, std::int64_t offset, const Rows& to);

/// Every row of x times the sigmoid of its gate, gates [x.n, 1].
void scale_rows_by_sigmoid(Workspace& workspace, const Rows& gates, const Rows& x);

/// y[i] = sum of the rows places[i * k ..] of x in this order, where k = places.size() / y.n, which may be 1 and more.
void sum_rows(Workspace& workspace, const Rows& x, std::span<const std::int64_t> places, const Rows& y);

/// y = (up + 1) * gate * sigmoid(alpha * gate) with gate <= limit and |up| <= limit, the halves of gate_up [N, 2 I].
/// Source: gpt-oss model card, arXiv:2508.10925.
void clamped_swiglu(Workspace& workspace, float alpha, float limit, const Rows& gate_up, const Rows& y);

/// x = cap * tanh(x / cap). Source: Gemma 2, arXiv:2408.00118, section 2.
void softcap(Workspace& workspace, float cap, const Rows& x);

}  // namespace mneme::ops
