#pragma once

#include <string>

#include "mneme/ops/workspace.h"

namespace mneme::ops {

/// The activations of feed-forward layers.
enum class Activation { kRelu, kSilu, kGeluTanh, kGelu };

/// config.json's names: "relu", "silu"/"swish", "gelu_pytorch_tanh"/"gelu_new", "gelu". Throws Error(kUnsupported) for
/// others.
Activation activation_of(const std::string& hidden_act);

/// y = activation(gate) * up, where gate is the first half of each row of gate_up [N, 2 I] and up the second; y [N, I].
/// Source: Shazeer 2020, arXiv:2002.05202 (SwiGLU, GEGLU); Hendrycks & Gimpel 2016, arXiv:1606.08415 (GELU).
void gated(Workspace& workspace, Activation activation, const Rows& gate_up, const Rows& y);

/// x = activation(x), for feed-forward layers without a gate.
void activate(Workspace& workspace, Activation activation, const Rows& x);

/// y += x, the residual stream; same shapes.
void add(Workspace& workspace, const Rows& x, const Rows& y);

}  // namespace mneme::ops
