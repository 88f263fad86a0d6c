#include "mneme/models/model.h"

#include "mneme/base/error.h"

namespace mneme {
namespace {

const char* parts(bool attention, bool state) {
  return attention && state ? "keys, values and states" : state ? "states" : "keys and values";
}

void check_fits(std::size_t i, const LayerShape& wanted, const KvLayer& layer) {
  const kernels::BlockLayout& layout = layer.layout();
  check(layout.n_heads == wanted.n_heads && layout.key_dim == wanted.key_dim && layout.value_dim == wanted.value_dim,
        ErrorKind::kInvalidArgument,
        "layer {} of the cache holds {} heads of {} and {}, the model's has {} of {} and {}; make the cache from the "
        "model's own config",
        i, layout.n_heads, layout.key_dim, layout.value_dim, wanted.n_heads, wanted.key_dim, wanted.value_dim);
  check(
      layer.storage().n_readers == wanted.n_readers, ErrorKind::kInvalidArgument,
      "layer {} of the cache is made for {} layers that read it too, the model has {}; make the cache from the model's "
      "own config",
      i, layer.storage().n_readers, wanted.n_readers);
  // A cache may keep less than full attention would see (StreamingLLM's sinks, say): that is its maker's choice.
  check(layer.retention() == wanted.retention || !wanted.retention.limited(), ErrorKind::kInvalidArgument,
        "layer {} of the cache keeps {}, the model's keeps {}; make the cache from the model's own config", i,
        layer.retention().name(), wanted.retention.name());
}

}  // namespace

void Model::embed(ops::Workspace&, std::span<const std::int64_t>, const ops::Rows&) const {
  throw Error(ErrorKind::kUnsupported, "{}: the decoder of an encoder-decoder takes ids alone", config_.name);
}

void check_fits(const CacheShape& shape, const Cache& cache) {
  const std::vector<CacheLayer>& layers = cache.layers();
  check(layers.size() == shape.layers.size(), ErrorKind::kInvalidArgument,
        "a cache of {} layers was given to a model of {}; make it from the model's own config", layers.size(),
        shape.layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LayerShape& wanted = shape.layers[i];
    check(layers[i].has_attention() == wanted.has_attention() && layers[i].has_state() == wanted.state.has_value(),
          ErrorKind::kInvalidArgument,
          "layer {} of the cache holds {}, the model's has {}; make the cache from the model's own config", i,
          parts(layers[i].has_attention(), layers[i].has_state()),
          parts(wanted.has_attention(), wanted.state.has_value()));
    if (wanted.has_attention()) check_fits(i, wanted, layers[i].attention());
    check(
        !wanted.state || layers[i].state().shape() == *wanted.state, ErrorKind::kInvalidArgument,
        "layer {} of the cache has states of another size than the model's; make the cache from the model's own config",
        i);
    for (std::int64_t row = 0; row < cache.n_sequences(); ++row) {
      check(layers[i].length(row) == layers[0].length(row), ErrorKind::kInvalidArgument,
            "layer {} of the cache holds {} tokens of sequence {}, layer 0 holds {}; update every layer alike", i,
            layers[i].length(row), row, layers[0].length(row));
    }
  }
}

}  // namespace mneme
