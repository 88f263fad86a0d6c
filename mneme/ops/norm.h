#pragma once

#include <ATen/ATen.h>

#include "mneme/ops/workspace.h"

namespace mneme::ops {

/// y = x / sqrt(mean(x^2) + eps) * weight, for every row; x and y may be the same rows.
/// weight [width] float32 on the workspace's device. Source: Zhang & Sennrich 2019, arXiv:1910.07467, eq. 4.
void rms_norm(Workspace& workspace, const Rows& x, const at::Tensor& weight, float eps, const Rows& y);

/// y = (x - mean(x)) / sqrt(var(x) + eps) * weight + bias, for every row; x and y may be the same rows.
/// weight, bias [width] float32 on the workspace's device. Source: Ba et al. 2016, arXiv:1607.06450.
void layer_norm(Workspace& workspace, const Rows& x, const at::Tensor& weight, const at::Tensor& bias, float eps,
                const Rows& y);

/// RMS norm of each of n_heads heads side by side, in place: head h of a row is x[n][offset + h * D ..], where D is
/// the length of the weight that all heads share (Qwen3's query and key norms).
void rms_norm_heads(Workspace& workspace, const at::Tensor& weight, float eps, const Rows& x, std::int64_t offset,
                    std::int64_t n_heads);

}  // namespace mneme::ops
