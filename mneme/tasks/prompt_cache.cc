#include "mneme/tasks/prompt_cache.h"

#include <filesystem>
#include <utility>

#include "mneme/base/error.h"
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
  check(settings.use_cache, ErrorKind::kInvalidArgument, "--prompt-cache and --no-use-cache exclude each other");
  if (std::filesystem::exists(path_)) {
    SavedCache saved = load_cache(path_, model, options);
    keep_common_prefix(saved.cache, saved.ids, prompt_);
    cache_.emplace(std::move(saved.cache));
  } else {
    cache_.emplace(make_cache(model.config(), settings));
  }
  options.cache_implementation.reset();
  options.max_cache_len.reset();
  options.cache_config = {};
}

void PromptCache::save(const GenerateOutput& output) {
  std::vector<std::int64_t> ids = prompt_;
  ids.insert(ids.end(), output.new_tokens[0].begin(), output.new_tokens[0].end());
  save_cache(path_, *cache_, ids, model_);
}

}  // namespace mneme::tasks
