#include "mneme/tasks/prompt_cache.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "mneme/base/draft_file.h"
#include "mneme/base/error.h"
#include "mneme/base/log.h"
#include "mneme/generate/batch.h"
#include "mneme/generate/common_prefix.h"

namespace mneme::tasks {

PromptCache::PromptCache(std::string path, const CausalLM& model, const std::vector<std::vector<std::int64_t>>& prompts,
                         GenerateOptions& options)
    : path_(std::move(path)), model_(model), prompt_(prompts.at(0)) {
  const GenerationSettings settings = resolve(options, model.generation_config(), std::ssize(prompt_), 1);
  check(prompts.size() == 1 && settings.n_hypotheses() == 1, ErrorKind::kInvalidArgument,
        "--prompt-cache keeps one text, there are {} prompts of {} continuations; call once for each", prompts.size(),
        settings.n_hypotheses());
  check(!options.offload_if_out_of_memory, ErrorKind::kInvalidArgument,
        "--prompt-cache and --offload-if-out-of-memory exclude each other: what begins again begins without the file's "
        "cache; ask for an offloaded one");
  { const DraftFile writable(path_); }  // else the answer would be known before this is
  check(settings.use_cache, ErrorKind::kInvalidArgument, "--prompt-cache and --no-use-cache exclude each other");
  if (std::filesystem::exists(path_)) {
    SavedCache saved = load_cache(path_, model, options);
    const std::int64_t n_wanted = std::ssize(prompt_) + settings.max_new_tokens;
    const std::int64_t n_held = saved.cache.max_length().value_or(n_wanted);
    check(n_wanted <= n_held && options.max_cache_len.value_or(n_held) == n_held, ErrorKind::kInvalidArgument,
          "{}: holds a static cache of {} tokens, {} are asked for; begin another file", path_, n_held,
          std::max(n_wanted, options.max_cache_len.value_or(0)));
    keep_common_prefix(saved.cache, saved.ids, prompt_);
    cache_.emplace(std::move(saved.cache));
  } else {
    cache_.emplace(make_cache(model.config(), settings));
    const auto lets_go = [](const LayerPlan& layer) { return layer.retention.limited() || layer.state.has_value(); };
    // Then windows and states can go back too, to wherever the next prompt parts.
    if (std::ranges::any_of(cache_->plan().layers, lets_go)) cache_->activate_past_recording();
  }
  options.cache_implementation.reset();
  options.max_cache_len.reset();
  options.cache_config = {};
}

void PromptCache::save(const GenerateOutput& output) {
  std::vector<std::int64_t> ids = prompt_;
  ids.insert(ids.end(), output.new_tokens[0].begin(), output.new_tokens[0].end());
  try {
    save_cache(path_, *cache_, ids, model_);
  } catch (const Error& error) {
    warn(error.what());  // what was written is worth more than its cache
  }
}

}  // namespace mneme::tasks
