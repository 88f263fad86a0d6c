#pragma once

#include <cstdint>
#include <span>

#include "mneme/base/dtype.h"
#include "mneme/models/weights.h"
#include "mneme/ops/workspace.h"

namespace mneme {

/// Token embeddings, read row by row from the mapped model file: they cost no memory of their own, and a token's row is
/// the file's numbers rounded to the model's dtype, as the rest of the weights are.
class Embedding {
 public:
  Embedding(const Weights& weights, const StoredTensor& table, DType dtype)
      : weights_(weights), table_(table), dtype_(dtype) {}

  const StoredTensor& table() const noexcept { return table_; }

  /// out [ids.size(), E]. Ids must be inside the table.
  void forward(ops::Workspace& workspace, std::span<const std::int64_t> ids, const ops::Rows& out) const;

 private:
  Weights weights_;  // keeps the file mapped
  StoredTensor table_;
  DType dtype_;
};

}  // namespace mneme
