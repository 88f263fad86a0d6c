#include "mneme/models/model.h"

#include "mneme/base/error.h"

namespace mneme {

void check_fits(const CacheShape& shape, const Cache& cache) {
  const std::vector<KvLayer>& layers = cache.layers();
  check(layers.size() == shape.layers.size(), ErrorKind::kInvalidArgument,
        "a cache of {} layers was given to a model of {}; make it from the model's own config", layers.size(),
        shape.layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LayerShape& wanted = shape.layers[i];
    const kernels::BlockLayout& layout = layers[i].layout();
    check(layout.n_heads == wanted.n_heads && layout.key_dim == wanted.key_dim && layout.value_dim == wanted.value_dim,
          ErrorKind::kInvalidArgument,
          "layer {} of the cache holds {} heads of {} and {}, the model's has {} of {} and {}; make the cache from the "
          "model's own config",
          i, layout.n_heads, layout.key_dim, layout.value_dim, wanted.n_heads, wanted.key_dim, wanted.value_dim);
    // A cache may keep less than full attention would see (StreamingLLM's sinks, say): that is its maker's choice.
    check(layers[i].retention() == wanted.retention || !wanted.retention.limited(), ErrorKind::kInvalidArgument,
          "layer {} of the cache keeps {}, the model's keeps {}; make the cache from the model's own config", i,
          layers[i].retention().name(), wanted.retention.name());
  }
}

}  // namespace mneme
