#include "mneme/ops/matrix_scan.h"

#include <algorithm>
#include <vector>

#include "mneme/base/error.h"
#include "mneme/kernels/kernels.h"
#include "mneme/kernels/state_args.h"
#include "mneme/ops/parallel.h"

namespace mneme::ops {
namespace {

using kernels::kPanel;

std::int64_t n_groups(const MatrixScanOptions& o) { return kernels::round_up(o.head_dim, kPanel) / kPanel; }

void scan_through_aten(const Workspace& workspace, std::span<const StateRun> runs, std::int64_t offset,
                       const MatrixScanInputs& in, const MatrixScanOptions& o, const Rows& y) {
  const std::int64_t groups = n_groups(o), per_key = o.n_heads / o.n_key_heads;
  const at::Tensor x = as_tensor(workspace, in.x);
  // [heads, groups, n_keys, 16] as stored.
  const auto state = [&](const float* states) {
    return at::from_blob(const_cast<float*>(states) + offset, {o.n_heads, groups, o.n_keys, kPanel}, x.options());
  };
  const auto heads = [&](std::int64_t first, std::int64_t n, std::int64_t size) {
    return x.narrow(1, first, n * size).view({in.x.n, n, size});
  };
  const at::Tensor k = heads(in.k_offset, o.n_key_heads, o.n_keys).repeat_interleave(per_key, 1);
  const at::Tensor q = heads(in.q_offset, o.n_key_heads, o.n_keys).repeat_interleave(per_key, 1);
  const at::Tensor v = heads(in.v_offset, o.n_heads, o.head_dim);
  const at::Tensor gates = as_tensor(workspace, in.gates).view({in.x.n, o.n_heads, 2, 1});
  for (const StateRun& run : runs) {
    // [heads, n_keys, channels]
    at::Tensor h = state(run.before).transpose(1, 2).flatten(2).narrow(2, 0, o.head_dim).clone();
    const StateMark* mark = run.marks.data();
    for (std::int64_t t = 0; t < run.n_rows; ++t) {
      const std::int64_t row = run.first_row + t;
      const at::Tensor decay = gates[row].select(1, 0).unsqueeze(2), weight = gates[row].select(1, 1);
      h = h * decay;
      at::Tensor value = v[row];
      if (o.delta) value = value - (h * k[row].unsqueeze(2)).sum(1);
      h = h + k[row].unsqueeze(2) * (value * weight).unsqueeze(1);
      if (y.data) {
        at::Tensor out = (h * q[row].unsqueeze(2)).sum(1);
        if (o.skip.defined()) out = out + v[row] * o.skip.unsqueeze(1);
        as_tensor(workspace, y)[row].copy_(out.flatten());
      }
      if (mark->n_rows == t + 1) {
        const at::Tensor padded = at::constant_pad_nd(h, {0, groups * kPanel - o.head_dim});
        state(mark++->states).copy_(padded.unflatten(2, {groups, kPanel}).transpose(1, 2));
      }
    }
  }
}

void check_gates(const Rows& raw, std::int64_t offset, std::int64_t columns, const GateWeights& weights,
                 const Rows& gates) {
  const std::int64_t n_heads = weights.a.numel();
  check(raw.n == gates.n && offset >= 0 && offset + columns <= raw.width && gates.width == 2 * n_heads &&
            weights.bias.numel() == n_heads,
        ErrorKind::kInvalidArgument, "gates: columns [{}, {}) of [{}, {}] do not give [{}, {}]", offset,
        offset + columns, raw.n, raw.width, gates.n, gates.width);
}

/// softplus(raw + bias) of a row of heads.
void time_steps(const kernels::Table& table, const float* raw, const float* bias, std::int64_t n, float* out) {
  for (std::int64_t h = 0; h < n; ++h) out[h] = raw[h] + bias[h];
  table.softplus(out, n, out);
}

}  // namespace

std::int64_t matrix_state_floats(const MatrixScanOptions& o) { return o.n_heads * n_groups(o) * o.n_keys * kPanel; }

void matrix_scan(Workspace& workspace, std::span<const StateRun> runs, std::int64_t offset, const MatrixScanInputs& in,
                 const MatrixScanOptions& o, const Rows& y) {
  const auto fits = [&](std::int64_t first, std::int64_t width) { return first >= 0 && first + width <= in.x.width; };
  check(o.n_key_heads > 0 && o.n_heads % o.n_key_heads == 0 && fits(in.k_offset, o.n_key_heads * o.n_keys) &&
            fits(in.q_offset, o.n_key_heads * o.n_keys) && fits(in.v_offset, o.n_heads * o.head_dim) &&
            in.gates.n == in.x.n && in.gates.width == 2 * o.n_heads &&
            (!y.data || (y.n == in.x.n && y.width == o.n_heads * o.head_dim)),
        ErrorKind::kInvalidArgument,
        "matrix scan: {} heads of {}, {} key heads of {}, rows [{}, {}], gates [{}, {}] and y [{}, {}] do not fit",
        o.n_heads, o.head_dim, o.n_key_heads, o.n_keys, in.x.n, in.x.width, in.gates.n, in.gates.width, y.n, y.width);
  if (!workspace.uses_kernels()) return scan_through_aten(workspace, runs, offset, in, o, y);
  const kernels::Table& table = kernels::active();
  const auto kernel = o.delta ? table.delta_rule : table.linear_attention;
  const float* skip = o.skip.defined() ? o.skip.const_data_ptr<float>() : nullptr;
  const std::int64_t groups = n_groups(o), lists = o.n_heads * groups, per_key = o.n_heads / o.n_key_heads;
  const auto n_runs = static_cast<std::int64_t>(runs.size());
  const std::int64_t rows_per_run = in.x.n / std::max<std::int64_t>(1, n_runs);
  parallel_rows(n_runs * lists, rows_per_run * o.n_keys * kPanel, [&](std::int64_t i) noexcept {
    const StateRun& run = runs[static_cast<std::size_t>(i / lists)];
    const std::int64_t head = i % lists / groups, channel = i % groups * kPanel;
    const std::int64_t state = offset + i % lists * o.n_keys * kPanel;
    const std::int64_t keys = head / per_key * o.n_keys, values = head * o.head_dim + channel;
    const auto n_lanes = static_cast<int>(std::min(kPanel, o.head_dim - channel));
    const float* before = run.before + state;
    std::int64_t done = 0;
    for (const StateMark& mark : run.marks) {
      const std::int64_t row = run.first_row + done;
      kernel({.before = before,
              .after = mark.states + state,
              .n_rows = mark.n_rows - done,
              .n_keys = o.n_keys,
              .n_lanes = n_lanes,
              .decay_weight = in.gates.row(row) + 2 * head,
              .decay_weight_stride = in.gates.width,
              .k = in.x.row(row) + in.k_offset + keys,
              .k_stride = in.x.width,
              .q = in.x.row(row) + in.q_offset + keys,
              .q_stride = in.x.width,
              .v = in.x.row(row) + in.v_offset + values,
              .v_stride = in.x.width,
              .y = y.data ? y.row(row) + values : nullptr,
              .y_stride = y.width});
      before = mark.states + state;
      done = mark.n_rows;
    }
    if (!y.data || !skip) return;
    for (std::int64_t t = run.first_row; t < run.first_row + run.n_rows; ++t) {
      const float* v = in.x.row(t) + in.v_offset + values;
      float* out = y.row(t) + values;
      for (int lane = 0; lane < n_lanes; ++lane) out[lane] += skip[head] * v[lane];
    }
  });
}

void time_step_gates(Workspace& workspace, const Rows& raw, std::int64_t offset, const GateWeights& weights,
                     const Rows& gates) {
  const std::int64_t n = weights.a.numel();
  check_gates(raw, offset, n, weights, gates);
  if (!workspace.uses_kernels()) {
    const at::Tensor dt =
        at::softplus(as_tensor(workspace, raw).narrow(1, offset, n) + weights.bias).clamp(weights.least, weights.most);
    as_tensor(workspace, gates).view({raw.n, n, 2}).copy_(at::stack({at::exp(dt * weights.a), dt}, 2));
    return;
  }
  const kernels::Table& table = kernels::active();
  const float *bias = weights.bias.const_data_ptr<float>(), *a = weights.a.const_data_ptr<float>();
  const Workspace::Scope scope(workspace);
  const Rows both = scratch_rows(workspace, raw.n, 2 * n);
  parallel_rows(raw.n, 16 * n, [&](std::int64_t i) noexcept {
    float *dt = both.row(i), *decay = dt + n, *out = gates.row(i);
    time_steps(table, raw.row(i) + offset, bias, n, dt);
    for (std::int64_t h = 0; h < n; ++h) dt[h] = std::clamp(dt[h], weights.least, weights.most);
    for (std::int64_t h = 0; h < n; ++h) decay[h] = dt[h] * a[h];
    table.exp(decay, n, decay);
    for (std::int64_t h = 0; h < n; ++h) out[2 * h] = decay[h], out[2 * h + 1] = dt[h];
  });
}

void delta_gates(Workspace& workspace, const Rows& raw, std::int64_t offset, const GateWeights& weights,
                 const Rows& gates) {
  const std::int64_t n = weights.a.numel();
  check_gates(raw, offset, 2 * n, weights, gates);
  if (!workspace.uses_kernels()) {
    const at::Tensor rows = as_tensor(workspace, raw);
    const at::Tensor decay = at::exp(at::softplus(rows.narrow(1, offset + n, n) + weights.bias) * weights.a);
    as_tensor(workspace, gates)
        .view({raw.n, n, 2})
        .copy_(at::stack({decay, at::sigmoid(rows.narrow(1, offset, n))}, 2));
    return;
  }
  const kernels::Table& table = kernels::active();
  const float *bias = weights.bias.const_data_ptr<float>(), *a = weights.a.const_data_ptr<float>();
  const Workspace::Scope scope(workspace);
  const Rows both = scratch_rows(workspace, raw.n, 2 * n);
  parallel_rows(raw.n, 24 * n, [&](std::int64_t i) noexcept {
    float *weight = both.row(i), *decay = weight + n, *out = gates.row(i);
    table.sigmoid(raw.row(i) + offset, n, weight);
    time_steps(table, raw.row(i) + offset + n, bias, n, decay);
    for (std::int64_t h = 0; h < n; ++h) decay[h] *= a[h];
    table.exp(decay, n, decay);
    for (std::int64_t h = 0; h < n; ++h) out[2 * h] = decay[h], out[2 * h + 1] = weight[h];
  });
}

}  // namespace mneme::ops
