#include "mneme/ops/conv.h"

#include <algorithm>

#include "mneme/base/error.h"
#include "mneme/kernels/kernels.h"
#include "mneme/kernels/state_args.h"
#include "mneme/ops/parallel.h"

namespace mneme::ops {
namespace {

/// Token t of a run's channels; the window's tokens are the last ones before 0.
const float* channels_of(const StateRun& run, std::int64_t offset, std::int64_t n_window, std::int64_t n_channels,
                         const Rows& x, std::int64_t t) {
  return t >= 0 ? x.row(run.first_row + t) : run.before + offset + (n_window + t) * n_channels;
}

const StateRun& run_of(std::span<const StateRun> runs, std::int64_t row) {
  return *(std::upper_bound(runs.begin(), runs.end(), row,
                            [](std::int64_t r, const StateRun& run) { return r < run.first_row; }) -
           1);
}

void conv_through_aten(const Workspace& workspace, std::span<const StateRun> runs, std::int64_t offset, const Rows& x,
                       const ConvWeights& weights, const Rows& y) {
  const std::int64_t n_window = weights.taps.size(0) - 1, n_channels = y.width;
  const auto window = [&](const float* states) {
    return as_tensor(workspace, {const_cast<float*>(states) + offset, n_window, n_channels});
  };
  const at::Tensor channels = as_tensor(workspace, x).narrow(1, 0, n_channels), result = as_tensor(workspace, y);
  for (const StateRun& run : runs) {
    const at::Tensor rows = at::cat({window(run.before), channels.narrow(0, run.first_row, run.n_rows)});
    at::Tensor sum = weights.taps[0] * rows.narrow(0, 0, run.n_rows);
    for (std::int64_t k = 1; k <= n_window; ++k) sum += weights.taps[k] * rows.narrow(0, k, run.n_rows);
    if (weights.bias.defined()) sum += weights.bias;
    result.narrow(0, run.first_row, run.n_rows).copy_(weights.silu ? at::silu(sum) : sum);
    for (const StateMark& mark : run.marks) window(mark.states).copy_(rows.narrow(0, mark.n_rows, n_window));
  }
}

}  // namespace

void causal_conv(Workspace& workspace, std::span<const StateRun> runs, std::int64_t offset, const Rows& x,
                 const ConvWeights& weights, const Rows& y) {
  const std::int64_t n_taps = weights.taps.size(0), n_channels = weights.taps.size(1), n_window = n_taps - 1;
  check(x.n == y.n && x.width >= n_channels && y.width == n_channels && n_taps <= kMaxTaps, ErrorKind::kInvalidArgument,
        "causal convolution: x [{}, {}] and y [{}, {}] do not fit {} taps of {} channels", x.n, x.width, y.n, y.width,
        n_taps, n_channels);
  if (!workspace.uses_kernels()) return conv_through_aten(workspace, runs, offset, x, weights, y);
  const kernels::Table& table = kernels::active();
  const float* taps = weights.taps.const_data_ptr<float>();
  const float* bias = weights.bias.defined() ? weights.bias.const_data_ptr<float>() : nullptr;
  parallel_rows(x.n, n_channels * (n_taps + (weights.silu ? 8 : 0)), [&](std::int64_t i) noexcept {
    const StateRun& run = run_of(runs, i);
    const float* rows[kMaxTaps];
    for (std::int64_t k = 0; k < n_taps; ++k) {
      rows[k] = channels_of(run, offset, n_window, n_channels, x, i - run.first_row - n_window + k);
    }
    table.causal_conv({.taps = rows, .n_taps = n_taps, .weight = taps, .bias = bias, .n = n_channels, .y = y.row(i)});
    if (weights.silu) table.silu_multiply(y.row(i), nullptr, n_channels, y.row(i));
  });
  for (const StateRun& run : runs) {
    for (const StateMark& mark : run.marks) {
      // From the oldest on: where the window is moved in place, what is read lies at or behind what is written.
      for (std::int64_t k = 0; k < n_window; ++k) {
        const float* from = channels_of(run, offset, n_window, n_channels, x, mark.n_rows - n_window + k);
        float* to = mark.states + offset + k * n_channels;
        if (from != to) std::copy_n(from, n_channels, to);
      }
    }
  }
}

}  // namespace mneme::ops
