#include "mneme/ops/scan.h"

#include <algorithm>

#include "mneme/base/error.h"
#include "mneme/kernels/kernels.h"
#include "mneme/kernels/state_args.h"
#include "mneme/ops/parallel.h"

namespace mneme::ops {
namespace {

using kernels::kPanel;

/// [.., C] as [.., ceil(C / 16), 1, 16].
at::Tensor in_panels(const at::Tensor& x) {
  const std::int64_t n = x.size(-1), padded = kernels::round_up(n, kPanel);
  return at::constant_pad_nd(x, {0, padded - n}).unflatten(-1, {padded / kPanel, 1, kPanel});
}

void scan_through_aten(const Workspace& workspace, std::span<const StateRun> runs, std::int64_t offset,
                       const ScanInputs& inputs, const ScanWeights& weights, const Rows& y) {
  const std::int64_t n_channels = inputs.u.width, n_states = weights.a.size(1);
  const auto state = [&](const float* states) {
    return at::from_blob(const_cast<float*>(states) + offset, weights.a.sizes(), weights.a.options());
  };
  const at::Tensor u = in_panels(as_tensor(workspace, inputs.u));
  const at::Tensor delta = in_panels(at::softplus(as_tensor(workspace, inputs.time_step)));
  const at::Tensor b_and_c = as_tensor(workspace, inputs.b_and_c).unsqueeze(-1);  // [N, 2 n, 1]
  for (const StateRun& run : runs) {
    at::Tensor h = state(run.before).clone();
    const StateMark* mark = run.marks.data();
    for (std::int64_t t = 0; t < run.n_rows; ++t) {
      const std::int64_t row = run.first_row + t;
      h = at::exp(delta[row] * weights.a) * h + delta[row] * u[row] * b_and_c[row].narrow(0, 0, n_states);
      if (y.data) {
        const at::Tensor sum =
            (h * b_and_c[row].narrow(0, n_states, n_states)).sum(1).flatten().narrow(0, 0, n_channels);
        const at::Tensor gate = as_tensor(workspace, inputs.gate)[row].narrow(0, inputs.gate_offset, n_channels);
        as_tensor(workspace, y)[row].copy_((sum + as_tensor(workspace, inputs.u)[row] * weights.d) * at::silu(gate));
      }
      if (mark->n_rows == t + 1) state(mark++->states).copy_(h);
    }
  }
}

}  // namespace

at::Tensor scan_panels(const at::Tensor& matrix) {
  return in_panels(matrix.t()).squeeze(-2).transpose(0, 1).contiguous();
}

std::int64_t scan_state_floats(std::int64_t n_channels, std::int64_t n_states) {
  return kernels::round_up(n_channels, kPanel) * n_states;
}

void selective_scan(Workspace& workspace, std::span<const StateRun> runs, std::int64_t offset, const ScanInputs& inputs,
                    const ScanWeights& weights, const Rows& y) {
  const std::int64_t n_rows = inputs.u.n, n_channels = inputs.u.width;
  const std::int64_t n_groups = weights.a.size(0), n_states = weights.a.size(1);
  check(n_groups == kernels::round_up(n_channels, kPanel) / kPanel && weights.d.numel() == n_channels &&
            inputs.time_step.n == n_rows && inputs.time_step.width == n_channels && inputs.b_and_c.n == n_rows &&
            inputs.b_and_c.width == 2 * n_states,
        ErrorKind::kInvalidArgument,
        "selective scan: u [{}, {}], time steps [{}, {}] and b, c [{}, {}] do not fit {} panels of {} states", n_rows,
        n_channels, inputs.time_step.n, inputs.time_step.width, inputs.b_and_c.n, inputs.b_and_c.width, n_groups,
        n_states);
  check(!y.data || (y.n == n_rows && y.width == n_channels && inputs.gate.n == n_rows &&
                    inputs.gate_offset + n_channels <= inputs.gate.width),
        ErrorKind::kInvalidArgument, "selective scan: y [{}, {}] and a gate at {} of [{}, {}] do not fit [{}, {}]", y.n,
        y.width, inputs.gate_offset, inputs.gate.n, inputs.gate.width, n_rows, n_channels);
  if (!workspace.uses_kernels()) return scan_through_aten(workspace, runs, offset, inputs, weights, y);
  const auto kernel = kernels::active().selective_scan;
  const float* a = weights.a.const_data_ptr<float>();
  const float* d = weights.d.const_data_ptr<float>();
  const auto n_runs = static_cast<std::int64_t>(runs.size());
  constexpr std::int64_t kCostOfExp = 8;  // against an element that is only touched
  const std::int64_t rows_per_run = n_rows / std::max<std::int64_t>(1, n_runs);
  parallel_rows(n_runs * n_groups, rows_per_run * n_states * kPanel * kCostOfExp, [&](std::int64_t i) noexcept {
    const StateRun& run = runs[static_cast<std::size_t>(i / n_groups)];
    const std::int64_t group = i % n_groups, channel = group * kPanel, state = offset + channel * n_states;
    const float* before = run.before + state;
    std::int64_t done = 0;
    for (const StateMark& mark : run.marks) {
      const std::int64_t row = run.first_row + done;
      kernel({.before = before,
              .after = mark.states + state,
              .n_rows = mark.n_rows - done,
              .n_states = n_states,
              .n_lanes = static_cast<int>(std::min(kPanel, n_channels - channel)),
              .a = a + channel * n_states,
              .d = d + channel,
              .u = inputs.u.row(row) + channel,
              .u_stride = n_channels,
              .time_step = inputs.time_step.row(row) + channel,
              .time_step_stride = n_channels,
              .b = inputs.b_and_c.row(row),
              .c = inputs.b_and_c.row(row) + n_states,
              .bc_stride = inputs.b_and_c.width,
              .gate = y.data ? inputs.gate.row(row) + inputs.gate_offset + channel : nullptr,
              .gate_stride = inputs.gate.width,
              .y = y.data ? y.row(row) + channel : nullptr,
              .y_stride = n_channels});
      before = mark.states + state;
      done = mark.n_rows;
    }
  });
}

}  // namespace mneme::ops
