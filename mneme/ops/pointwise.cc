#include "mneme/ops/pointwise.h"

#include <algorithm>
#include <vector>

#include "mneme/base/error.h"
#include "mneme/kernels/kernels.h"
#include "mneme/ops/parallel.h"

namespace mneme::ops {
namespace {

/// Calls f(first, n) for pieces of all numbers of x: one row of logits is work for all threads.
template <class F>
void parallel_pieces(const Rows& x, F&& f) {
  constexpr std::int64_t kPiece = 4096;
  const std::int64_t n = x.n * x.width;
  parallel_rows((n + kPiece - 1) / kPiece, kPiece,
                [&](std::int64_t i) noexcept { f(i * kPiece, std::min(kPiece, n - i * kPiece)); });
}

void check_beside(const char* what, const Rows& y, std::int64_t offset, const Rows& x) {
  check(y.n == x.n && offset >= 0 && offset + x.width <= y.width, ErrorKind::kInvalidArgument,
        "{}: columns [{}, {}) of [{}, {}] do not fit [{}, {}]", what, offset, offset + x.width, y.n, y.width, x.n,
        x.width);
}

}  // namespace

void scale(Workspace& workspace, float factor, const Rows& x) {
  if (!workspace.uses_kernels()) {
    as_tensor(workspace, x).mul_(factor);
    return;
  }
  parallel_pieces(x, [&](std::int64_t first, std::int64_t n) noexcept {
    for (std::int64_t i = first; i < first + n; ++i) x.data[i] *= factor;
  });
}

void scale_rows(Workspace& workspace, const float* factors, std::int64_t offset, std::int64_t width, const Rows& x) {
  check(offset >= 0 && offset + width <= x.width, ErrorKind::kInvalidArgument,
        "scale: columns [{}, {}) do not fit rows of {}", offset, offset + width, x.width);
  if (!workspace.uses_kernels()) {
    const at::Tensor all = at::tensor(at::ArrayRef<float>(factors, static_cast<std::size_t>(x.n)));
    as_tensor(workspace, x).narrow(1, offset, width).mul_(all.unsqueeze(1).to(workspace.device()));
    return;
  }
  parallel_rows(x.n, width, [&](std::int64_t i) noexcept {
    float* row = x.row(i) + offset;
    for (std::int64_t j = 0; j < width; ++j) row[j] *= factors[i];
  });
}

void scale_columns(Workspace& workspace, const at::Tensor& factors, const Rows& x) {
  check(factors.numel() == x.width, ErrorKind::kInvalidArgument, "scale: {} factors do not fit rows of {}",
        factors.numel(), x.width);
  if (!workspace.uses_kernels()) {
    as_tensor(workspace, x).mul_(factors);
    return;
  }
  const float* f = factors.const_data_ptr<float>();
  parallel_rows(x.n, x.width, [&](std::int64_t i) noexcept {
    for (std::int64_t j = 0; j < x.width; ++j) x.row(i)[j] *= f[j];
  });
}

void copy_columns(Workspace& workspace, const Rows& from, std::int64_t offset, const Rows& to) {
  check_beside("copy", from, offset, to);
  if (!workspace.uses_kernels()) {
    as_tensor(workspace, to).copy_(as_tensor(workspace, from).narrow(1, offset, to.width));
    return;
  }
  parallel_rows(to.n, to.width,
                [&](std::int64_t i) noexcept { std::copy_n(from.row(i) + offset, to.width, to.row(i)); });
}

void multiply_silu(Workspace& workspace, const Rows& gate, std::int64_t offset, const Rows& x) {
  check_beside("multiply by a gate", gate, offset, x);
  if (!workspace.uses_kernels()) {
    as_tensor(workspace, x).mul_(at::silu(as_tensor(workspace, gate).narrow(1, offset, x.width)));
    return;
  }
  const auto kernel = kernels::active().silu_multiply;
  parallel_rows(x.n, 4 * x.width,
                [&](std::int64_t i) noexcept { kernel(gate.row(i) + offset, x.row(i), x.width, x.row(i)); });
}

void multiply(Workspace& workspace, const Rows& y, std::int64_t offset, const Rows& x) {
  check_beside("multiply", y, offset, x);
  if (!workspace.uses_kernels()) {
    as_tensor(workspace, x).mul_(as_tensor(workspace, y).narrow(1, offset, x.width));
    return;
  }
  parallel_rows(x.n, x.width, [&](std::int64_t i) noexcept {
    const float* factors = y.row(i) + offset;
    for (std::int64_t j = 0; j < x.width; ++j) x.row(i)[j] *= factors[j];
  });
}

void multiply_sigmoid(Workspace& workspace, const Rows& gate, std::int64_t offset, const Rows& x) {
  check_beside("multiply by a gate", gate, offset, x);
  if (!workspace.uses_kernels()) {
    as_tensor(workspace, x).mul_(at::sigmoid(as_tensor(workspace, gate).narrow(1, offset, x.width)));
    return;
  }
  const Workspace::Scope scope(workspace);
  const Rows open = scratch_rows(workspace, x.n, x.width);
  const auto sigmoid = kernels::active().sigmoid;
  parallel_rows(x.n, 4 * x.width,
                [&](std::int64_t i) noexcept { sigmoid(gate.row(i) + offset, x.width, open.row(i)); });
  multiply(workspace, open, 0, x);
}

void scale_rows_by_sigmoid(Workspace& workspace, const Rows& gates, const Rows& x) {
  check(gates.n == x.n && gates.width == 1, ErrorKind::kInvalidArgument, "scale: gates [{}, {}] do not fit {} rows",
        gates.n, gates.width, x.n);
  if (!workspace.uses_kernels()) {
    as_tensor(workspace, x).mul_(at::sigmoid(as_tensor(workspace, gates)));
    return;
  }
  const Workspace::Scope scope(workspace);
  float* open = workspace.floats(x.n);
  kernels::active().sigmoid(gates.data, x.n, open);
  scale_rows(workspace, open, 0, x.width, x);
}

void sum_rows(Workspace& workspace, const Rows& x, std::span<const std::int64_t> places, const Rows& y) {
  const std::int64_t k = y.n ? std::ssize(places) / y.n : 0;
  check(x.width == y.width && k * y.n == std::ssize(places), ErrorKind::kInvalidArgument,
        "sum of rows: {} places in [{}, {}] do not give [{}, {}]", places.size(), x.n, x.width, y.n, y.width);
  if (!workspace.uses_kernels()) {
    const at::Tensor index = at::tensor(at::ArrayRef<std::int64_t>(places.data(), places.size()), at::kLong);
    const at::Tensor rows = as_tensor(workspace, x).index_select(0, index.to(workspace.device()));
    as_tensor(workspace, y).copy_(rows.view({y.n, k, y.width}).sum(1));
    return;
  }
  const auto add = kernels::active().add;
  parallel_rows(y.n, k * y.width, [&](std::int64_t i) noexcept {
    const std::int64_t* own = places.data() + i * k;
    std::copy_n(x.row(own[0]), y.width, y.row(i));
    for (std::int64_t r = 1; r < k; ++r) add(x.row(own[r]), y.width, y.row(i));
  });
}

void clamped_swiglu(Workspace& workspace, float alpha, float limit, const Rows& gate_up, const Rows& y) {
  check(gate_up.n == y.n && gate_up.width == 2 * y.width, ErrorKind::kInvalidArgument,
        "clamped swiglu: [{}, {}] does not give [{}, {}]", gate_up.n, gate_up.width, y.n, y.width);
  if (!workspace.uses_kernels()) {
    const at::Tensor both = as_tensor(workspace, gate_up);
    const at::Tensor gate = both.narrow(1, 0, y.width).clamp_max(limit);
    const at::Tensor up = both.narrow(1, y.width, y.width).clamp(-limit, limit);
    as_tensor(workspace, y).copy_((up + 1) * gate * at::sigmoid(gate * alpha));
    return;
  }
  const auto sigmoid = kernels::active().sigmoid;
  parallel_rows(y.n, 4 * y.width, [&](std::int64_t i) noexcept {
    const float *gate = gate_up.row(i), *up = gate + y.width;
    float* out = y.row(i);
    for (std::int64_t j = 0; j < y.width; ++j) out[j] = alpha * std::min(gate[j], limit);
    sigmoid(out, y.width, out);
    for (std::int64_t j = 0; j < y.width; ++j) {
      out[j] *= std::min(gate[j], limit) * (std::clamp(up[j], -limit, limit) + 1);
    }
  });
}

void softcap(Workspace& workspace, float cap, const Rows& x) {
  if (!workspace.uses_kernels()) {
    const at::Tensor all = as_tensor(workspace, x);
    all.copy_(at::tanh(all / cap) * cap);
    return;
  }
  const auto tanh = kernels::active().tanh;
  parallel_pieces(x, [&](std::int64_t first, std::int64_t n) noexcept {
    float* piece = x.data + first;
    for (std::int64_t i = 0; i < n; ++i) piece[i] /= cap;
    tanh(piece, n, piece);
    for (std::int64_t i = 0; i < n; ++i) piece[i] *= cap;
  });
}

}  // namespace mneme::ops
