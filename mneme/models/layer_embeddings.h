#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "mneme/models/embedding.h"
#include "mneme/models/norm.h"
#include "mneme/models/sublayer.h"
#include "mneme/ops/activation.h"
#include "mneme/ops/linear.h"

namespace mneme {

/// A small vector of each token for each layer (Gemma 4): half of it by the token's id, half of its embedding.
class LayerEmbeddings {
 public:
  /// table       [V, layers * width], as it is stored; read row by row
  /// projection  of embeddings [E] to layers * width
  /// norm        of each `width` numbers that the projection gives
  LayerEmbeddings(Embedding table, float table_scale, ops::Linear projection, float projection_scale, Norm norm);

  std::int64_t n_bytes() const { return projection_.n_bytes(); }

  /// (table_scale table[id] + norm(projection_scale projection(h))) / sqrt(2) as scratch rows [N, layers * width]; h
  /// are the scaled embeddings of the ids.
  ops::Rows forward(ops::Workspace& workspace, std::span<const std::int64_t> ids, const ops::Rows& h) const;

 private:
  Embedding table_;
  float table_scale_, projection_scale_;
  ops::Linear projection_;
  Norm norm_;
};

/// y = out(act(gate x) * v), where v is what LayerEmbeddings gave for this layer: the columns [offset, offset + width)
/// of Pass::layer_inputs.
std::unique_ptr<const Sublayer> layer_input(ops::Linear gate, ops::Linear out, ops::Activation activation,
                                            std::int64_t offset);

}  // namespace mneme
