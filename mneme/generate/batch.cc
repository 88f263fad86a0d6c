#include "mneme/generate/batch.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <numeric>

#include "mneme/base/error.h"
#include "mneme/generate/cache_options.h"
#include "mneme/generate/prompts.h"

namespace mneme {
namespace {

/// How many tokens of each prompt to read at a time: at most `most`, and, where somebody may cancel in between, about
/// as many as take a quarter of a second.
class Pace {
 public:
  Pace(std::int64_t most, bool may_be_cancelled)
      : most_(most), least_(may_be_cancelled ? std::min(most, std::max(most / 16, kFewest)) : most), n_(least_) {}

  std::int64_t n_tokens() const noexcept { return n_; }

  /// Runs `read`, which reads such a piece.
  template <class Read>
  void time(const Read& read) {
    const auto start = std::chrono::steady_clock::now();
    read();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    const double fitting = static_cast<double>(n_) * kSeconds / std::max(took.count(), 1e-6);
    n_ = fitting >= static_cast<double>(most_) ? most_ : std::max(least_, static_cast<std::int64_t>(fitting));
  }

 private:
  static constexpr std::int64_t kFewest = 16;
  static constexpr double kSeconds = 0.25;

  std::int64_t most_, least_, n_;
};

}  // namespace

Cache make_cache(const CacheShape& shape, const GenerationSettings& settings) {
  return Cache(shape, settings.use_cache ? cache_options_of(settings) : CacheOptions());
}

Batch::Batch(const Model& model, const GenerationSettings& settings, const GenerateOptions& options,
             std::vector<PromptTokens> prompts, Cache* cache, Cache* cross)
    : model_(model),
      settings_(settings),
      options_(options),
      prompts_(std::move(prompts)),
      cache_(cache),
      cross_(cross) {
  for (PromptTokens& prompt : prompts_) {
    check_length(prompt.length(), model.config());
    if (!prompt.ids.empty()) check_prompt(prompt.ids, model.config());
    const std::int64_t n_ids = std::ssize(prompt.ids);
    sequences_.push_back({.tokens = std::move(prompt.ids),
                          .prompt_length = n_ids,
                          .n_without_ids = n_ids > 0 ? 0 : prompt.length(),
                          .prompt = std::ssize(sequences_)});
    prompt_tokens_ += sequences_.back().n_prompt();
    // A step is to allocate nothing; who asks for more than this will not notice when it does.
    sequences_.back().tokens.reserve(
        static_cast<std::size_t>(n_ids + std::min<std::int64_t>(settings.max_new_tokens, 4096)));
  }
  if (cache_) {
    check_fits(model, *cache_);
    if (settings.n_hypotheses() > 1) cache_ = &own_cache_.emplace(cache_->copy());
  } else {
    cache_ = &own_cache_.emplace(make_cache(model.cache_shape(), settings));
  }
  const std::vector<std::int64_t> held = cache_->lengths();
  check(held.empty() || held.size() == sequences_.size(), ErrorKind::kInvalidArgument,
        "{} prompts were given with a cache that holds {} sequences", sequences_.size(), held.size());
  for (std::size_t i = 0; i < held.size(); ++i) {
    check(held[i] < sequences_[i].n_prompt(), ErrorKind::kInvalidArgument,
          "the cache holds {} tokens, the prompt has {}: pass the whole text, what is cached included, and at least "
          "one token more",
          held[i], sequences_[i].n_prompt());
    cached_tokens_ += held[i];
  }
  const ModelConfig& config = model.config();
  for (const Sequence& s : sequences_) {
    const std::int64_t begin = position(s, s.n_prompt());
    check(!config.learned_positions || begin + settings.max_new_tokens <= config.max_position_embeddings,
          ErrorKind::kInvalidArgument,
          "a prompt of {} + {} new tokens go behind the {} positions that the model has learned; ask for fewer", begin,
          settings.max_new_tokens, config.max_position_embeddings);
  }
  if (cache_->max_length()) {
    for (const Sequence& s : sequences_) {
      check(s.n_prompt() + settings.max_new_tokens <= *cache_->max_length(), ErrorKind::kInvalidArgument,
            "static cache: a prompt of {} + {} new tokens exceed its capacity of {}; raise max_cache_len or use a "
            "dynamic cache",
            s.n_prompt(), settings.max_new_tokens, *cache_->max_length());
    }
  }
  logits_ = at::empty({size(), model_.config().vocab_size}, at::kFloat);
}

SequenceView Batch::view(const Sequence& s) const {
  const std::span<const std::int64_t> tokens(s.tokens);
  return {.tokens = tokens,
          .prompt_length = s.prompt_length,
          .n_without_ids = s.n_without_ids,
          .source = sources_.empty() ? tokens.first(static_cast<std::size_t>(s.prompt_length))
                                     : std::span<const std::int64_t>(sources_[static_cast<std::size_t>(s.prompt)]),
          .prompt = s.prompt,
          .hypothesis = s.hypothesis};
}

bool Batch::prefill() {
  std::vector<std::int64_t> counts(sequences_.size());
  std::int64_t done = cached_tokens_;
  const auto tell = [&] {
    if (options_.on_prefill) options_.on_prefill(done, prompt_tokens_);
  };
  Pace pace(settings_.prefill_chunk_size, options_.cancelled != nullptr);
  for (bool more = true; more;) {
    tell();
    const std::vector<std::int64_t> held = cache_->lengths();
    more = false;
    for (std::size_t i = 0; i < sequences_.size(); ++i) {
      const std::int64_t left = sequences_[i].n_prompt() - (held.empty() ? 0 : held[i]);
      counts[i] = std::min(left, pace.n_tokens());
      more = more || left > counts[i];
    }
    pace.time([&] { feed(counts); });
    done += std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    if (more && options_.cancelled && options_.cancelled()) return false;
  }
  states_.end_step(size(), prompt_tokens_);
  tell();
  return true;
}

void Batch::multiply(std::int64_t n) {
  if (n == 1) return;
  cache_->repeat_interleave(n);
  if (cross_) cross_->repeat_interleave(n);
  logits_ = logits_.repeat_interleave(n, 0);
  states_.repeat_interleave(n);
  std::vector<Sequence> all;
  for (const Sequence& s : sequences_) {
    for (std::int64_t k = 0; k < n; ++k) {
      all.push_back(s);
      all.back().hypothesis = k;
    }
  }
  sequences_ = std::move(all);
}

void Batch::reorder(std::span<const std::int64_t> rows) {
  cache_->reorder(at::IntArrayRef(rows.data(), rows.size()));
  std::vector<Sequence> moved;
  for (const std::int64_t row : rows) moved.push_back(sequences_[static_cast<std::size_t>(row)]);
  for (std::size_t i = 0; i < moved.size(); ++i) moved[i].hypothesis = sequences_[i].hypothesis;
  sequences_ = std::move(moved);
}

/// Whether all that is left to read of each sequence is its last token, by its id.
bool Batch::goes_by_plan() const {
  if (!settings_.use_cache || options_.output_hidden_states || !model_.device().is_cpu()) return false;
  for (std::int64_t i = 0; i < size(); ++i) {
    const Sequence& s = sequences_[static_cast<std::size_t>(i)];
    if (!s.finished() && s.length() - cache_->layers().front().length(i) != 1) return false;
  }
  return true;
}

void Batch::replay() {
  if (settings_.options.disable_compile.value_or(false) || !plan_ || !plan_->fits(sequences_)) {
    plan_.emplace(sequences_);
    ++n_plans_;
  }
  ++n_replays_;
  for (const std::int64_t i : plan_->sequences()) {
    const Sequence& s = sequences_[static_cast<std::size_t>(i)];
    plan_->set(i, s.tokens.back(), position(s, s.length() - 1), s.length());
  }
  Cache::Pass pass(*cache_, plan_->counts());
  compute(plan_->batch(), plan_->rows(), logits_, plan_->sequences());
  pass.done();
}

void Batch::step() {
  if (goes_by_plan()) return replay();
  if (!settings_.use_cache) cache_->reset();  // every step starts over: the same bits, all of the work
  const std::vector<std::int64_t> held = cache_->lengths();
  std::vector<std::int64_t> counts(sequences_.size());
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    const Sequence& s = sequences_[i];
    counts[i] = s.finished() ? 0 : s.length() - (held.empty() ? 0 : held[i]);
  }
  feed(counts);
  states_.end_step(size(), 1);
}

std::span<float> Batch::logits_of(std::int64_t sequence) {
  const std::int64_t vocabulary = logits_.size(1);
  return {logits_.mutable_data_ptr<float>() + sequence * vocabulary, static_cast<std::size_t>(vocabulary)};
}

/// Tokens at the beginning of a text that are read as vectors.
std::int64_t Batch::n_vectors(const Sequence& s) const {
  const at::Tensor& vectors = prompts_[static_cast<std::size_t>(s.prompt)].vectors;
  return vectors.defined() ? vectors.size(0) : 0;
}

std::int64_t Batch::position(const Sequence& s, std::int64_t place) const {
  const std::vector<std::int64_t>& given = prompts_[static_cast<std::size_t>(s.prompt)].positions;
  if (given.empty()) return place;
  return place < std::ssize(given) ? given[static_cast<std::size_t>(place)]
                                   : given.back() + place - std::ssize(given) + 1;
}

/// Runs the next `counts[i]` tokens of each sequence, and keeps the logits of those that are then complete. A pass
/// reads ids or vectors: where both come, one goes before the other.
void Batch::feed(const std::vector<std::int64_t>& counts) {
  const std::vector<std::int64_t> held = cache_->lengths();
  std::vector<std::int64_t> vectors(counts.size()), ids = counts;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const std::int64_t past = held.empty() ? 0 : held[i];
    vectors[i] = std::clamp<std::int64_t>(n_vectors(sequences_[i]) - past, 0, counts[i]);
    ids[i] -= vectors[i];
  }
  const auto any = [](const std::vector<std::int64_t>& of) { return std::ranges::any_of(of, std::identity()); };
  if (any(vectors)) read(vectors, /*as_vectors=*/true);
  if (any(ids)) read(ids, /*as_vectors=*/false);
}

void Batch::read(const std::vector<std::int64_t>& counts, bool as_vectors) {
  Cache::Pass pass(*cache_, counts);
  std::vector<std::int64_t> ids, positions, row_starts{0}, rows, complete, known_lengths;
  std::vector<at::Tensor> vectors;
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    const Sequence& s = sequences_[i];
    const std::int64_t past = cache_->layers().front().length(static_cast<std::int64_t>(i));
    if (as_vectors) vectors.push_back(prompts_[static_cast<std::size_t>(s.prompt)].vectors.narrow(0, past, counts[i]));
    for (std::int64_t p = past; p < past + counts[i]; ++p) {
      if (!as_vectors) ids.push_back(s.tokens[static_cast<std::size_t>(p - s.n_without_ids)]);
      positions.push_back(position(s, p));
    }
    row_starts.push_back(std::ssize(positions));
    known_lengths.push_back(s.length());
    if (counts[i] > 0 && past + counts[i] == s.length()) {
      rows.push_back(row_starts.back() - 1);
      complete.push_back(static_cast<std::int64_t>(i));
    }
  }
  const at::Tensor given = as_vectors ? at::cat(vectors) : at::Tensor();
  ops::Rows embeddings;
  if (as_vectors) embeddings = {static_cast<float*>(given.data_ptr()), given.size(0), given.size(1)};
  const std::optional<HiddenStates> states = run({.ids = ids,
                                                  .embeddings = embeddings,
                                                  .positions = positions,
                                                  .row_starts = row_starts,
                                                  .known_lengths = known_lengths},
                                                 rows, logits_, complete);
  pass.done();
  for (std::size_t i = 0; states && i < counts.size(); ++i) {
    if (counts[i] > 0) states_.add(static_cast<std::int64_t>(i), states->all().narrow(1, row_starts[i], counts[i]));
  }
}

/// One pass, with its hidden states if they are asked for.
std::optional<HiddenStates> Batch::run(TokenBatch tokens, std::span<const std::int64_t> rows, at::Tensor& logits,
                                       std::span<const std::int64_t> places) {
  std::optional<HiddenStates> states;
  if (options_.output_hidden_states) tokens.hidden_states = states.emplace(model_, tokens.n_tokens()).rows();
  compute(tokens, rows, logits, places);
  return states;
}

/// One pass; the logits of rows[r] become row places[r] of a tensor on the CPU; places ascend. Where those lie side by
/// side they are computed there.
void Batch::compute(const TokenBatch& tokens, std::span<const std::int64_t> rows, at::Tensor& logits,
                    std::span<const std::int64_t> places) {
  const std::int64_t n = std::ssize(rows), vocabulary = model_.config().vocab_size;
  ops::Workspace& workspace = cache_->workspace();
  if (workspace.device().is_cpu() && n > 0 && places.back() - places.front() == n - 1) {
    const ops::Rows computed{logits.mutable_data_ptr<float>() + places.front() * vocabulary, n, vocabulary};
    return model_.forward(tokens, *cache_, rows, computed);
  }
  const ops::Workspace::Scope scope(workspace);
  const ops::Rows computed = ops::scratch_rows(workspace, n, vocabulary);
  model_.forward(tokens, *cache_, rows, computed);
  for (std::int64_t r = 0; r < n; ++r) {
    const std::int64_t place = places[static_cast<std::size_t>(r)];
    if (workspace.device().is_cpu()) {
      std::copy_n(computed.row(r), vocabulary, logits.mutable_data_ptr<float>() + place * vocabulary);
    } else {
      logits.select(0, place).copy_(ops::as_tensor(workspace, computed).select(0, r));
    }
  }
}

at::Tensor Batch::read_ahead(std::span<const std::int64_t> drafts) {
  const Sequence& sequence = sequences_.front();
  if (!settings_.use_cache) {
    cache_->reset();
    feed({n_vectors(sequence)});
  }
  cache_->activate_past_recording();
  const std::vector<std::int64_t>& tokens = sequence.tokens;
  const std::int64_t past = cache_->seq_length(), known_length = sequence.length(), n_drafts = std::ssize(drafts);
  std::vector<std::int64_t> ids(tokens.begin() + past - sequence.n_without_ids, tokens.end()), rows, places;
  for (std::int64_t r = 0; r <= n_drafts; ++r) {
    rows.push_back(known_length - past - 1 + r);
    places.push_back(r);
  }
  ids.insert(ids.end(), drafts.begin(), drafts.end());
  std::vector<std::int64_t> positions(ids.size());
  for (std::size_t r = 0; r < positions.size(); ++r) {
    positions[r] = position(sequence, past + static_cast<std::int64_t>(r));
  }
  const std::int64_t n = std::ssize(ids), row_starts[] = {0, n};
  Cache::Pass pass(*cache_, std::span(&n, 1));
  at::Tensor logits = at::empty({n_drafts + 1, model_.config().vocab_size}, at::kFloat);
  const std::optional<HiddenStates> states = run({.ids = ids,
                                                  .embeddings = {},
                                                  .positions = positions,
                                                  .row_starts = row_starts,
                                                  .known_lengths = std::span(&known_length, 1)},
                                                 rows, logits, places);
  pass.done();
  n_known_ = known_length;
  if (states) states_ahead_ = states->all().narrow(1, n - n_drafts - 1, n_drafts + 1);
  return logits;
}

void Batch::keep() {
  const std::int64_t n_tokens = sequences_.front().length();
  cache_->crop(n_tokens - 1 - cache_->seq_length());
  if (!states_ahead_.defined()) return;
  for (std::int64_t r = 0; r < n_tokens - n_known_; ++r) {  // each token is a step, as without drafts
    states_.add(0, states_ahead_.narrow(1, r, 1));
    states_.end_step(1, 1);
  }
}

}  // namespace mneme
