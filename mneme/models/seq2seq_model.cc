#include "mneme/models/seq2seq_model.h"

#include <vector>

#include "mneme/base/error.h"

namespace mneme {

CacheShape cross_cache_shape_of(const ModelConfig& config, DType dtype, at::Device device) {
  CacheShape shape = cache_shape_of(config, dtype, device);
  for (LayerShape& layer : shape.layers) layer.retention = Retention::all();
  return shape;
}

CacheShape Seq2SeqModel::cross_cache_shape() const { return cross_cache_shape_of(config(), dtype(), device()); }

void Seq2SeqModel::embed_features(ops::Workspace&, const ops::Rows&, const ops::Rows&) const {
  throw Error(ErrorKind::kUnsupported, "{}: this model reads ids, not features", config_.name);
}

void encode_into(const Seq2SeqModel& model, const TokenBatch& source, EncoderDecoderCache& cache) {
  Cache& cross = cache.cross_attention_cache();
  check_fits(model.cross_cache_shape(), cross);
  std::vector<std::int64_t> counts;
  for (std::size_t i = 0; i + 1 < source.row_starts.size(); ++i)
    counts.push_back(source.row_starts[i + 1] - source.row_starts[i]);
  cache.prepare_cross(counts);
  const ops::Workspace::Scope scope(cross.workspace());
  const ops::Rows states = ops::scratch_rows(cross.workspace(), source.n_tokens(), model.config().hidden_size);
  model.encode(source, cross.workspace(), states);
  model.write_cross(states, source.row_starts, cross);
  try {
    for (const CacheLayer& layer : cross.layers()) layer.check_written();
  } catch (const Error&) {
    cross.reset();
    throw;
  }
}

}  // namespace mneme
