// Random programs on whole models: whatever happened to a cache before, its logits have the bits of a cold run over the
// ids that it holds.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "mneme/models/ragged.h"
#include "tests/support/files.h"
#include "tests/support/places.h"
#include "tests/support/random_model.h"

namespace mneme {
namespace {

using testing::random_ids;
using testing::RandomModel;
using Ids = std::vector<std::int64_t>;

at::Tensor feed(const Model& model, const std::vector<Ids>& rows, Cache& cache) {
  std::vector<at::Tensor> ids;
  for (const Ids& row : rows) ids.push_back(at::tensor(row, at::kLong));
  return forward(model, {.input_ids = at::stack(ids), .logits_to_keep = 1}, cache);
}

/// A cache with the ids that it holds, row by row.
struct Branch {
  Cache cache;
  std::vector<Ids> ids;
  std::int64_t recorded = -1;  ///< tokens that may be taken back; -1: not recording
};

class Program {
 public:
  Program(const Model& model, const CacheOptions& options, unsigned seed)
      : model_(model), options_(options), random_(seed) {
    branches_.reserve(kMostBranches);
    branches_.push_back({Cache(model.cache_shape(), options_), std::vector<Ids>(1 + seed % 3)});
    append(branches_[0]);
  }

  void run(int n_steps) {
    for (int step = 0; step < n_steps && !::testing::Test::HasFatalFailure(); ++step) {
      SCOPED_TRACE(::testing::Message() << "step " << step);
      take_step(branches_[static_cast<std::size_t>(below(std::ssize(branches_)))]);
    }
  }

 private:
  static constexpr std::int64_t kMostBranches = 3, kMostRows = 4;

  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n)); }

  void take_step(Branch& b) {
    switch (below(10)) {
      case 0:
        b.cache.activate_past_recording();
        b.recorded = std::max<std::int64_t>(b.recorded, 0);
        return;
      case 1: return crop(b);
      case 2:
        if (std::ssize(branches_) < kMostBranches) branches_.push_back({b.cache.copy(), b.ids, b.recorded});
        return;
      case 3: return reorder(b);
      case 4:
        b.cache.save(folder_.path() + "/x");
        b.cache = Cache::load(folder_.path() + "/x", model_.cache_shape());
        return;
      case 5: return join(b, branches_[static_cast<std::size_t>(below(std::ssize(branches_)))]);
      default: return append(b);
    }
  }

  void append(Branch& b) {
    if (std::ranges::any_of(b.ids, [](const Ids& ids) { return ids.size() > 250; })) {
      b.cache.reset();
      b = {std::move(b.cache), std::vector<Ids>(static_cast<std::size_t>(1 + below(3)))};
    }
    const std::int64_t n = below(2) ? 1 + below(5) : 1 + below(90);
    std::vector<Ids> more;
    for (std::size_t i = 0; i < b.ids.size(); ++i) more.push_back(random_ids(n, static_cast<unsigned>(random_())));
    const at::Tensor logits = feed(model_, more, b.cache);
    for (std::size_t i = 0; i < b.ids.size(); ++i) {
      b.ids[i].insert(b.ids[i].end(), more[i].begin(), more[i].end());
      Cache cold(model_.cache_shape(), options_);
      ASSERT_TRUE(at::equal(logits[static_cast<std::int64_t>(i)], feed(model_, {b.ids[i]}, cold)[0]))
          << n << " tokens more in row " << i << " of " << b.ids[i].size();
    }
    if (b.recorded >= 0) b.recorded += n;
  }

  /// Of what was recorded: codes that a crop goes back into are not what a cold run has.
  void crop(Branch& b) {
    const std::int64_t n = b.recorded > 0 ? below(b.recorded + 1) : 0;
    b.cache.crop(-n);
    for (Ids& ids : b.ids) ids.resize(ids.size() - static_cast<std::size_t>(n));
    b.recorded = std::min<std::int64_t>(b.recorded, 0);
    if (std::ranges::any_of(b.ids, &Ids::empty)) append(b);
  }

  void join(Branch& b, const Branch& other) {
    if (std::ssize(b.ids) + std::ssize(other.ids) > kMostRows || (b.recorded < 0) != (other.recorded < 0)) return;
    b.cache.add_sequences(other.cache);
    const std::vector<Ids> added = other.ids;  // `other` may be this one
    b.ids.insert(b.ids.end(), added.begin(), added.end());
    b.recorded = std::min(b.recorded, other.recorded);
  }

  void reorder(Branch& b) {
    Ids rows;
    std::vector<Ids> ids;
    for (std::int64_t i = 1 + below(kMostRows); i > 0; --i) rows.push_back(below(std::ssize(b.ids)));
    for (const std::int64_t row : rows) ids.push_back(b.ids[static_cast<std::size_t>(row)]);
    b.cache.reorder(rows);
    b.ids = std::move(ids);
  }

  const Model& model_;
  const CacheOptions options_;
  const testing::TempFolder folder_;
  std::mt19937 random_;
  std::vector<Branch> branches_;
};

/// Each placement, growth and some codecs.
std::vector<CacheOptions> cache_options() {
  const CacheConfig on_disk{.offloading = true, .offload_only_non_sliding = false};
  CacheConfig kivi{.backend = "kivi", .nbits_key = 4, .nbits_value = 2, .q_group_size = 16, .residual_length = 64};
  CacheConfig kivi_on_disk = kivi;
  kivi_on_disk.offloading = true;
  return {{},
          {.max_cache_len = 400, .max_batch_size = 4},
          {.config = on_disk},
          {.max_cache_len = 400, .max_batch_size = 4, .config = on_disk},
          {.quantized = true, .config = kivi},
          {.max_cache_len = 400,
           .max_batch_size = 4,
           .quantized = true,
           .config = {.backend = "int8", .residual_length = 0}},
          {.quantized = true, .config = kivi_on_disk}};
}

TEST(RandomPrograms, OnWholeModelsEqualColdRuns) {
  unsigned seed = 0;
  for (const auto& [type, changes] : testing::random_models()) {
    const RandomModel model(type, changes);
    for (const CacheOptions& options : cache_options()) {
      for (int i = 0; i < 3; ++i) {
        SCOPED_TRACE(::testing::Message() << type << ' ' << changes.dump() << ", seed " << seed + 1);
        Program(*model, options, ++seed).run(12);
        if (HasFatalFailure()) return;
      }
    }
  }
  EXPECT_GE(seed, 100u);
}

// Layers that share keys and values, keep states, both, latent vectors or chunks.
TEST(RandomPrograms, OnArchitecturesEqualColdRuns) {
  unsigned seed = 0;
  for (const char* name :
       {"gemma4_shared", "lfm2", "qwen3_next", "falcon_h1", "mamba2", "deepseek_v3", "llama4_chunk8"}) {
    const auto model = load_model(testing::test_data("models/") + name, DType::kFloat32, at::kCPU);
    for (const CacheOptions& options : cache_options()) {
      SCOPED_TRACE(::testing::Message() << name << ", seed " << seed + 1);
      Program(*model, options, ++seed).run(12);
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace mneme
