#include "mneme/models/embedding.h"

#include "mneme/ops/parallel.h"

namespace mneme {
namespace {

void round_to(DType dtype, std::int64_t n, float* x) {
  if (dtype == DType::kBFloat16) {
    for (std::int64_t i = 0; i < n; ++i) x[i] = from_bfloat16(to_bfloat16(x[i]));
  } else if (dtype == DType::kFloat16) {
    for (std::int64_t i = 0; i < n; ++i) x[i] = from_float16(to_float16(x[i]));
  }
}

}  // namespace

void Embedding::forward(ops::Workspace& workspace, std::span<const std::int64_t> ids, const ops::Rows& out) const {
  const ops::Workspace::Scope scope(workspace);
  const bool on_host = workspace.device().is_cpu();
  float* rows = on_host ? out.data : reinterpret_cast<float*>(workspace.host_bytes(out.n * out.width * 4));
  ops::parallel_rows(out.n, out.width, [&](std::int64_t i) noexcept {
    read_rows(table_, ids[static_cast<std::size_t>(i)], 1, rows + i * out.width);
    round_to(dtype_, out.width, rows + i * out.width);
  });
  if (!on_host) ops::as_tensor(workspace, out).copy_(at::from_blob(rows, {out.n, out.width}, at::kFloat));
}

}  // namespace mneme
