// What operations on a cache of SmolLM2's shape cost (30 layers, 3 key/value heads of 64, bfloat16), at three lengths:
// a fork, a crop, a reordering of 8 beams, a sequence that joins and an append must not grow with what is cached. One
// JSON line a figure.
//
//   cache_bench [n_tokens...]       default 1024 8192 32768
//
// The gate before the figures: a fork shows the same keys as its source.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "mneme/cache/presets.h"

namespace mneme {
namespace {

constexpr std::int64_t kLayers = 30, kHeads = 3, kDim = 64;

double median_us(int repeats, const std::function<void()>& prepare, const std::function<void()>& work) {
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) {
    prepare();
    const auto start = std::chrono::steady_clock::now();
    work();
    times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(times.begin(), times.begin() + repeats / 2, times.end());
  return times[static_cast<std::size_t>(repeats / 2)];
}

/// Appends n tokens to every sequence; no queries attend to them.
void append(Cache& cache, std::int64_t n, std::int64_t n_sequences) {
  std::vector<float> rows(static_cast<std::size_t>(n * n_sequences * kHeads * kDim), 1.0f);
  float nothing = 0;
  const ops::Rows tokens{rows.data(), n * n_sequences, kHeads * kDim}, none{&nothing, n * n_sequences, 0};
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(n_sequences), n);
  std::vector<std::int64_t> starts{0};
  for (const std::int64_t count : counts) starts.push_back(starts.back() + count);
  cache.prepare(counts);
  for (std::int64_t l = 0; l < kLayers; ++l) {
    cache.layer(l).attention().attend(cache.workspace(), starts, {.keys = tokens, .values = tokens},
                                      {.q = none, .n_heads = 0}, none);
  }
}

void report(const char* cache, std::int64_t n_tokens, const char* operation, double microseconds) {
  std::printf(R"({"cache": "%s", "tokens": %lld, "operation": "%s", "us": %.2f})"
              "\n",
              cache, static_cast<long long>(n_tokens), operation, microseconds);
}

void measure(const char* name, const CacheOptions& options, std::int64_t n_tokens) {
  const LayerShape layer{.n_heads = kHeads, .key_dim = kDim, .value_dim = kDim};
  const CacheShape shape{.layers = std::vector(kLayers, layer), .dtype = DType::kBFloat16};
  Cache cache(shape, options);
  for (std::int64_t n = 0; n < n_tokens; n += 1024) append(cache, std::min<std::int64_t>(1024, n_tokens - n), 1);
  if (!at::equal(cache.copy().layer(7).keys(), cache.layer(7).keys())) {
    std::fprintf(stderr, "a fork differs from its source\n");
    std::exit(1);
  }
  const auto nothing = [] {};
  std::optional<Cache> fork;
  report(name, n_tokens, "fork",
         median_us(
             101, [&] { fork.reset(); }, [&] { fork.emplace(cache.copy()); }));
  report(name, n_tokens, "drop a fork",
         median_us(
             101, [&] { fork.emplace(cache.copy()); }, [&] { fork.reset(); }));
  const auto fresh = [&] {
    fork.emplace(cache.copy());
    append(*fork, 5, 1);
  };
  report(name, n_tokens, "crop(-3)", median_us(51, fresh, [&] { fork->crop(-3); }));
  report(name, n_tokens, "append to a fork",
         median_us(
             51, [&] { fork.emplace(cache.copy()); }, [&] { append(*fork, 1, 1); }));
  fork.emplace(cache.copy());
  report(name, n_tokens, "append", median_us(51, nothing, [&] { append(*fork, 1, 1); }));
  fork.emplace(cache.copy());
  fork->repeat_interleave(8);
  append(*fork, 1, 8);
  std::optional<Cache> joined;
  report(name, n_tokens, "add a sequence",
         median_us(
             101, [&] { joined.emplace(fork->copy()); }, [&] { joined->add_sequences(cache); }));
  report(name, n_tokens, "reorder 8 beams", median_us(101, nothing, [&] { fork->reorder({3, 3, 0, 1, 7, 6, 5, 2}); }));
}

}  // namespace
}  // namespace mneme

int main(int argc, char** argv) {
  std::vector<std::int64_t> lengths;
  for (int i = 1; i < argc; ++i) lengths.push_back(std::atoll(argv[i]));
  if (lengths.empty()) lengths = {1024, 8192, 32768};
  for (const std::int64_t n : lengths) {
    mneme::measure("bfloat16", {}, n);
    mneme::measure("kivi4+2", {.quantized = true, .config = {.backend = "kivi", .nbits_key = 4, .nbits_value = 2}}, n);
    mneme::measure("offloaded", {.config = {.offloading = true}}, n);
  }
}
