#include "mneme/models/layer_embeddings.h"

#include <cmath>
#include <utility>

#include "mneme/ops/pointwise.h"

namespace mneme {
namespace {

class LayerInput final : public Sublayer {
 public:
  LayerInput(ops::Linear gate, ops::Linear out, ops::Activation activation, std::int64_t offset)
      : gate_(std::move(gate)), out_(std::move(out)), activation_(activation), offset_(offset) {}

  std::int64_t n_bytes() const override { return gate_.n_bytes() + out_.n_bytes(); }

  void forward(const Pass& pass, CacheLayer&, const ops::Rows& x, const ops::Rows& y) const override {
    ops::Workspace& workspace = pass.workspace;
    const ops::Workspace::Scope scope(workspace);
    const ops::Rows gated = ops::scratch_rows(workspace, x.n, gate_.out_features());
    gate_.forward(workspace, x, gated);
    ops::activate(workspace, activation_, gated);
    ops::multiply(workspace, pass.layer_inputs, offset_, gated);
    out_.forward(workspace, gated, y);
  }

 private:
  ops::Linear gate_, out_;
  ops::Activation activation_;
  std::int64_t offset_;
};

}  // namespace

LayerEmbeddings::LayerEmbeddings(Embedding table, float table_scale, ops::Linear projection, float projection_scale,
                                 Norm norm)
    : table_(std::move(table)),
      table_scale_(table_scale),
      projection_scale_(projection_scale),
      projection_(std::move(projection)),
      norm_(std::move(norm)) {}

ops::Rows LayerEmbeddings::forward(ops::Workspace& workspace, std::span<const std::int64_t> ids,
                                   const ops::Rows& h) const {
  const ops::Rows projected = ops::scratch_rows(workspace, h.n, projection_.out_features());
  const ops::Workspace::Scope scope(workspace);
  const ops::Rows looked_up = ops::scratch_rows(workspace, h.n, projected.width);
  projection_.forward(workspace, h, projected);
  ops::scale(workspace, projection_scale_, projected);
  norm_.heads(workspace, projected, 0, projected.width);
  table_.forward(workspace, ids, looked_up);
  ops::scale(workspace, table_scale_, looked_up);
  ops::add(workspace, looked_up, projected);
  ops::scale(workspace, std::sqrt(0.5f), projected);
  return projected;
}

std::unique_ptr<const Sublayer> layer_input(ops::Linear gate, ops::Linear out, ops::Activation activation,
                                            std::int64_t offset) {
  return std::make_unique<LayerInput>(std::move(gate), std::move(out), activation, offset);
}

}  // namespace mneme
