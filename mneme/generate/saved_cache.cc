#include "mneme/generate/saved_cache.h"

#include <algorithm>

#include "mneme/base/error.h"
#include "mneme/cache/cache_file.h"
#include "mneme/generate/cache_options.h"

namespace mneme {
namespace {

void check_kind(const std::string& path, const CacheFileInfo& info, const CausalLM& model,
                const GenerateOptions& options) {
  if (!options.cache_implementation && to_json(options.cache_config).empty()) return;
  const GenerateOptions of_cache{.max_new_tokens = 1,
                                 .cache_implementation = options.cache_implementation,
                                 .cache_config = options.cache_config,
                                 .max_cache_len = options.max_cache_len};
  const GenerationSettings settings = resolve(of_cache, GenerationConfig(), 1, 1);
  const CachePlan wanted = plan_cache(model.config(), cache_options_of(settings));
  const CachePlan saved = plan_cache(info.shape, info.options);
  check(saved.implementation == wanted.implementation &&
            std::ranges::equal(saved.layers, wanted.layers, &LayerPlan::is_like),
        ErrorKind::kInvalidArgument,
        "{}: holds a {} cache of other options than the {} one that is asked for; ask for none or for the same, or "
        "begin another file",
        path, saved.implementation, wanted.implementation);
}

}  // namespace

void save_cache(const std::string& path, const Cache& cache, std::span<const std::int64_t> ids, const CausalLM& model) {
  const std::span held = ids.first(static_cast<std::size_t>(cache.seq_length()));
  cache.save(path, {.token_ids = {{held.begin(), held.end()}}, .model = model.config().fingerprint});
}

SavedCache load_cache(const std::string& path, const CausalLM& model, const GenerateOptions& options) {
  CacheFileInfo info = CacheFileInfo::read(path);
  check_kind(path, info, model, options);
  SavedCache saved{.cache = Cache::load(path, model.config(), {.model = model.config().fingerprint}), .ids = {}};
  const std::vector<std::int64_t> lengths = saved.cache.lengths();
  check(lengths.size() == 1 && info.token_ids.size() == 1 && std::ssize(info.token_ids[0]) == lengths[0],
        ErrorKind::kInvalidArgument, "{}: holds {} sequences and the ids of {}; one of each is wanted", path,
        lengths.size(), info.token_ids.size());
  saved.ids = std::move(info.token_ids[0]);
  return saved;
}

}  // namespace mneme
