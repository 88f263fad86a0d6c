#include "mneme/generate/generator.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>

#include "mneme/base/error.h"
#include "mneme/generate/cache_options.h"
#include "mneme/generate/logits.h"
#include "mneme/generate/prompts.h"
#include "mneme/generate/sampler.h"

namespace mneme {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

Cache make_cache(const CacheShape& shape, const GenerationSettings& settings) {
  return Cache(shape, settings.use_cache ? cache_options_of(settings) : CacheOptions());
}

Generator::Generator(const Model& model, const GenerationSettings& settings, const GenerateOptions& options,
                     std::vector<std::vector<std::int64_t>> prompts, Cache* cache)
    : model_(model), settings_(settings), options_(options), cache_(cache), start_(now()) {
  for (auto& prompt : prompts) {
    check_prompt(prompt, model.config());
    const std::int64_t length = std::ssize(prompt);
    sequences_.push_back({.tokens = std::move(prompt), .prompt_length = length, .finish_reason = {}});
    output_.prompt_tokens += length;
  }
  if (cache_) {
    check_fits(model, *cache_);
  } else {
    cache_ = &own_cache_.emplace(make_cache(model.cache_shape(), settings));
  }
  const std::vector<std::int64_t> held = cache_->lengths();
  check(held.empty() || held.size() == sequences_.size(), ErrorKind::kInvalidArgument,
        "{} prompts were given with a cache that holds {} sequences", sequences_.size(), held.size());
  for (std::size_t i = 0; i < held.size(); ++i) {
    check(held[i] < sequences_[i].prompt_length, ErrorKind::kInvalidArgument,
          "the cache holds {} tokens, the prompt has {}: pass the whole text, what is cached included, and at least "
          "one token more",
          held[i], sequences_[i].prompt_length);
    output_.cached_tokens += held[i];
  }
  if (cache_->max_length()) {
    for (const Sequence& s : sequences_) {
      check(s.prompt_length + settings.max_new_tokens <= *cache_->max_length(), ErrorKind::kInvalidArgument,
            "static cache: a prompt of {} + {} new tokens exceed its capacity of {}; raise max_cache_len or use a "
            "dynamic cache",
            s.prompt_length, settings.max_new_tokens, *cache_->max_length());
    }
  }
}

GenerateOutput Generator::run() {
  const Cache::Use use(*cache_);
  logits_ = at::empty({std::ssize(sequences_), model_.config().vocab_size}, at::kFloat);
  output_.seed = settings_.seed;
  output_.min_gap = std::numeric_limits<float>::infinity();
  const bool prefilled_all = prefill();
  const double prefilled = now();
  output_.prefill_ms = (prefilled - start_) * 1e3;
  if (prefilled_all) {
    if (options_.output_logits) output_.prompt_logits = logits_.clone();
    decode();
  } else {
    for (Sequence& s : sequences_) s.finish_reason = "cancelled";
  }
  output_.decode_ms = (now() - prefilled) * 1e3;
  for (const Sequence& s : sequences_) {
    output_.new_tokens.emplace_back(s.tokens.begin() + s.prompt_length, s.tokens.end());
    output_.finish_reasons.push_back(s.finish_reason);
  }
  output_.cache_implementation = settings_.use_cache ? cache_->implementation() : "none";
  output_.cache_length = cache_->seq_length();
  output_.cache_bytes = cache_->n_bytes();
  output_.cache_bytes_offloaded = cache_->n_bytes_offloaded();
  return std::move(output_);
}

/// Prompts go through the model in chunks; the logits that count are those of each sequence's last token. False if it
/// was cancelled between two chunks: then the cache holds whole chunks, and there are no logits.
bool Generator::prefill() {
  std::vector<std::int64_t> counts(sequences_.size());
  std::int64_t done = output_.cached_tokens;
  const auto tell = [&] {
    if (options_.on_prefill) options_.on_prefill(done, output_.prompt_tokens);
  };
  for (bool more = true; more;) {
    tell();
    const std::vector<std::int64_t> held = cache_->lengths();
    more = false;
    for (std::size_t i = 0; i < sequences_.size(); ++i) {
      const std::int64_t left = sequences_[i].prompt_length - (held.empty() ? 0 : held[i]);
      counts[i] = std::min(left, settings_.prefill_chunk_size);
      more = more || left > counts[i];
    }
    feed(counts);
    done += std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    if (more && cancelled()) return false;
  }
  tell();
  return true;
}

void Generator::decode() {
  if (settings_.max_new_tokens == 0) {
    for (Sequence& s : sequences_) s.finish_reason = "length";
  }
  std::vector<std::int64_t> counts(sequences_.size());
  while (true) {
    for (std::size_t i = 0; i < sequences_.size(); ++i) {
      if (!sequences_[i].finished()) choose(sequences_[i], static_cast<std::int64_t>(i));
    }
    if (all_finished()) return;
    if (!settings_.use_cache) cache_->reset();  // every step starts over: the same bits, all of the work
    const std::vector<std::int64_t> held = cache_->lengths();
    for (std::size_t i = 0; i < sequences_.size(); ++i) {
      counts[i] = sequences_[i].finished() ? 0 : std::ssize(sequences_[i].tokens) - (held.empty() ? 0 : held[i]);
    }
    feed(counts);
    ++output_.decode_steps;
  }
}

/// Runs the next `counts[i]` tokens of each sequence, and keeps the logits of those that are then complete.
void Generator::feed(const std::vector<std::int64_t>& counts) {
  Cache::Pass pass(*cache_, counts);
  std::vector<std::int64_t> ids, positions, row_starts{0}, rows;
  std::vector<std::size_t> complete;
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    const Sequence& s = sequences_[i];
    const std::int64_t past = cache_->layers().front().length(static_cast<std::int64_t>(i));
    for (std::int64_t p = past; p < past + counts[i]; ++p) {
      ids.push_back(s.tokens[static_cast<std::size_t>(p)]);
      positions.push_back(p);
    }
    row_starts.push_back(std::ssize(ids));
    if (counts[i] > 0 && past + counts[i] == std::ssize(s.tokens)) {
      rows.push_back(row_starts.back() - 1);
      complete.push_back(i);
    }
  }
  const std::int64_t n = std::ssize(rows), vocabulary = model_.config().vocab_size;
  ops::Workspace& workspace = cache_->workspace();
  const ops::Workspace::Scope scope(workspace);
  const ops::Rows logits = ops::scratch_rows(workspace, n, vocabulary);
  model_.forward({.ids = ids, .embeddings = {}, .positions = positions, .row_starts = row_starts}, *cache_, rows,
                 logits);
  pass.done();
  for (std::int64_t r = 0; r < n; ++r) {
    const auto i = static_cast<std::int64_t>(complete[static_cast<std::size_t>(r)]);
    if (workspace.device().is_cpu()) {
      std::copy_n(logits.row(r), vocabulary, logits_.mutable_data_ptr<float>() + i * vocabulary);
    } else {
      logits_.select(0, i).copy_(ops::as_tensor(workspace, logits).select(0, r));
    }
  }
}

void Generator::choose(Sequence& sequence, std::int64_t index) {
  const std::int64_t vocabulary = model_.config().vocab_size;
  const std::span<float> scores(logits_.mutable_data_ptr<float>() + index * vocabulary,
                                static_cast<std::size_t>(vocabulary));
  check_finite(scores);
  if (options_.output_logits) output_.min_gap = std::min(output_.min_gap, top_gap(scores));
  process_logits(scores, sequence.tokens, sequence.n_new(), settings_);
  const bool sample = settings_.do_sample && settings_.temperature > 0;
  // Streams number continuations of one prompt, not rows: a row draws the same whatever else is in the batch.
  const std::int64_t id =
      sample ? draw(scores, uniform(settings_.seed, 0, static_cast<std::uint64_t>(sequence.n_new()))) : argmax(scores);
  sequence.tokens.push_back(id);
  if (options_.on_token) options_.on_token(index, id);
  sequence.finish_reason = reason_to_stop(sequence);
}

std::string Generator::reason_to_stop(const Sequence& s) const {
  const std::int64_t id = s.tokens.back();
  if (std::find(settings_.eos_token_id.begin(), settings_.eos_token_id.end(), id) != settings_.eos_token_id.end())
    return "stop";
  if (!settings_.stop_strings.empty() && s.n_new() >= settings_.min_new_tokens) {
    const std::string text = options_.tokenizer_decode({s.tokens.begin() + s.prompt_length, s.tokens.end()});
    for (const std::string& stop : settings_.stop_strings) {
      if (text.find(stop) != std::string::npos) return "stop";
    }
  }
  if (s.n_new() >= settings_.max_new_tokens) return "length";
  if (settings_.max_time && seconds() >= *settings_.max_time) return "time";
  if (cancelled()) return "cancelled";
  return {};
}

bool Generator::all_finished() const {
  return std::all_of(sequences_.begin(), sequences_.end(), [](const Sequence& s) { return s.finished(); });
}

double Generator::seconds() const { return now() - start_; }

}  // namespace mneme
