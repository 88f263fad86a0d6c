// Attention over a cache of SmolLM2's shape (30 layers, 3 key/value heads of 64, 9 query heads), one JSON line a
// figure.
//
//   attention_bench [n_tokens]      default 8192; on all cores; MNEME_ISA=avx2 and so on choose the kernels
//
// Each decode figure stands beside the time to read the same bytes and do nothing else: their ratio is what counts,
// since neighbours on the machine move both.
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <vector>

#include "mneme/base/thread_pool.h"
#include "mneme/kernels/kernels.h"

namespace mneme::kernels {
namespace {

constexpr std::int64_t kLayers = 30, kHeads = 3, kGroup = 3, kDim = 64;

double best_ms(int repeats, const std::function<void()>& work) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    best = std::min(best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

/// A whole cache in huge pages: block b of layer l is at (l * n_blocks + b) * block_bytes.
struct Cache {
  BlockLayout layout;
  std::int64_t n_blocks;
  std::byte* memory;
  std::vector<const std::byte*> blocks;

  Cache(DType format, std::int64_t n_tokens)
      : layout{.format = format, .n_heads = kHeads, .key_dim = kDim, .value_dim = kDim},
        n_blocks((n_tokens + kBlockTokens - 1) / kBlockTokens) {
    constexpr std::size_t kHuge = std::size_t{1} << 21;
    auto* mapped = static_cast<std::byte*>(
        mmap(nullptr, bytes() + kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (mapped == MAP_FAILED) std::abort();
    memory = mapped + (kHuge - reinterpret_cast<std::uintptr_t>(mapped) % kHuge) % kHuge;
    madvise(memory, bytes(), MADV_HUGEPAGE);
    std::vector<float> token(kDim);
    for (std::int64_t i = 0; i < kDim; ++i) token[i] = std::sin(static_cast<float>(i));
    const std::int64_t n_heads = kLayers * n_blocks * kHeads;
    for (std::int64_t i = 0; i < n_heads; ++i) {
      active().of(format).store_tokens(layout, memory + i * layout.head_bytes(), 0, kBlockTokens, token.data(), 0,
                                       token.data(), 0);
    }
    for (std::int64_t i = 0; i < kLayers * n_blocks; ++i) blocks.push_back(memory + i * layout.block_bytes());
  }

  std::size_t bytes() const { return static_cast<std::size_t>(kLayers * n_blocks * layout.block_bytes()); }
};

/// Rows of queries, prepared for the format.
struct Queries {
  std::vector<float> floats;
  std::vector<std::byte> prepared;
  const void* data;
  std::int64_t stride;

  Queries(DType format, std::int64_t n_rows) : floats(n_rows * kDim) {
    for (std::size_t i = 0; i < floats.size(); ++i) floats[i] = std::cos(static_cast<float>(i));
    const FormatKernels& kernels = active().of(format);
    stride = kernels.prepared_bytes(kDim);
    prepared.resize(n_rows * stride + 64);
    if (stride) kernels.prepare(floats.data(), kDim, n_rows, kDim, prepared.data());
    data = stride ? static_cast<const void*>(prepared.data()) : floats.data();
    if (!stride) stride = kDim * 4;
  }
};

void attend_rows(const Cache& cache, const Queries& queries, std::int64_t layer, std::int64_t head, std::int64_t row,
                 std::int64_t n_rows, std::int64_t first_query, std::int64_t begin, std::int64_t end, float* states) {
  active()
      .of(cache.layout.format)
      .attend({.q = static_cast<const std::byte*>(queries.data) + row * queries.stride,
               .q_stride = queries.stride,
               .n_rows = n_rows,
               .first_row = row % kGroup,
               .group = kGroup,
               .first_query = first_query + row / kGroup,
               .blocks = cache.blocks.data() + layer * cache.n_blocks,
               .first_block = 0,
               .head_offset = head * cache.layout.head_bytes(),
               .key_dim = kDim,
               .value_dim = kDim,
               .scale = 0.125f,
               .softcap = 0.0f,
               .visibility = {}},
              begin, end, states);
}

void decode(DType format, std::int64_t n_tokens) {
  const Cache cache(format, n_tokens);
  const Queries queries(format, kGroup);
  const std::int64_t n_spans = (cache.n_blocks + kSpanBlocks - 1) / kSpanBlocks;
  std::vector<float> states(kHeads * n_spans * kGroup * attend_state_floats(kDim));

  const auto attend = [&] {
    for (std::int64_t layer = 0; layer < kLayers; ++layer) {
      ThreadPool::global().run(kHeads * n_spans, [&](std::int64_t task) {
        const std::int64_t begin = task % n_spans * kSpanBlocks, end = std::min(begin + kSpanBlocks, cache.n_blocks);
        attend_rows(cache, queries, layer, task / n_spans, 0, kGroup, n_tokens - 1, begin, end,
                    states.data() + task * kGroup * attend_state_floats(kDim));
      });
    }
  };

  std::vector<std::int64_t> sums(1024);
  const std::int64_t span_bytes = static_cast<std::int64_t>(cache.bytes()) / 1024;
  const auto stream = [&] {
    ThreadPool::global().run(1024, [&](std::int64_t task) {
      const auto* words = reinterpret_cast<const std::int64_t*>(cache.memory + task * span_bytes / 64 * 64);
      std::int64_t s[8] = {};
      for (std::int64_t i = 0; i + 8 <= span_bytes / 8; i += 8) {
        for (int j = 0; j < 8; ++j) s[j] += words[i + j];
      }
      for (std::int64_t x : s) sums[task] += x;
    });
  };
  double attend_ms = best_ms(1, attend), stream_ms = best_ms(1, stream);
  for (int i = 0; i < 20; ++i) {  // by turns, so that both meet the same neighbours
    attend_ms = std::min(attend_ms, best_ms(1, attend));
    stream_ms = std::min(stream_ms, best_ms(1, stream));
  }
  std::printf(
      "{\"name\": \"decode\", \"isa\": \"%s\", \"format\": \"%s\", \"tokens\": %ld, \"threads\": %d, "
      "\"megabytes\": %.1f, \"ms\": %.2f, \"stream_ms\": %.2f, \"ratio\": %.2f}\n",
      active().name, name_of(format).data(), static_cast<long>(n_tokens), ThreadPool::global().size(),
      static_cast<double>(cache.bytes()) / 1e6, attend_ms, stream_ms, attend_ms / stream_ms);
}

/// One prompt of n tokens, causal, all layers.
void prefill(DType format, std::int64_t n_tokens) {
  const Cache cache(format, n_tokens);
  const Queries queries(format, n_tokens * kGroup);
  const std::int64_t n_rows = n_tokens * kGroup, n_tiles = (n_rows + kMaxAttendRows - 1) / kMaxAttendRows;
  const double ms = best_ms(3, [&] {
    for (std::int64_t layer = 0; layer < kLayers; ++layer) {
      ThreadPool::global().run(kHeads * n_tiles, [&](std::int64_t task) {
        const std::int64_t row = task % n_tiles * kMaxAttendRows, n = std::min(kMaxAttendRows, n_rows - row);
        alignas(64) float total[kMaxAttendRows * attend_state_floats(kDim)],
            part[kMaxAttendRows * attend_state_floats(kDim)];
        const std::int64_t end = std::min(cache.n_blocks, ((row + n - 1) / kGroup) / kBlockTokens + 1);
        for (std::int64_t begin = 0; begin < end; begin += kSpanBlocks) {
          attend_rows(cache, queries, layer, task / n_tiles, row, n, 0, begin, std::min(begin + kSpanBlocks, end),
                      begin ? part : total);
          if (begin) active().merge_states(total, part, n, kDim);
        }
      });
    }
  });
  const double gflop =
      4e-9 * kLayers * kHeads * kGroup * kDim * static_cast<double>(n_tokens) * static_cast<double>(n_tokens) / 2;
  std::printf(
      "{\"name\": \"prefill\", \"isa\": \"%s\", \"format\": \"%s\", \"tokens\": %ld, \"threads\": %d, "
      "\"ms\": %.2f, \"gflops\": %.1f}\n",
      active().name, name_of(format).data(), static_cast<long>(n_tokens), ThreadPool::global().size(), ms,
      gflop / ms * 1e3);
}

void store(DType format, std::int64_t n_tokens) {
  Cache cache(format, n_tokens);
  const std::vector<float> keys(n_tokens * kHeads * kDim, 0.5f);
  const double ms = best_ms(5, [&] {
    ThreadPool::global().run(kLayers * kHeads, [&](std::int64_t task) {
      const std::int64_t layer = task / kHeads, head = task % kHeads;
      for (std::int64_t b = 0; b < cache.n_blocks; ++b) {
        const float* token = keys.data() + (b * kBlockTokens * kHeads + head) * kDim;
        active().of(format).store_tokens(
            cache.layout,
            cache.memory + (layer * cache.n_blocks + b) * cache.layout.block_bytes() + head * cache.layout.head_bytes(),
            0, std::min(kBlockTokens, n_tokens - b * kBlockTokens), token, kHeads * kDim, token, kHeads * kDim);
      }
    });
  });
  std::printf(
      "{\"name\": \"store\", \"isa\": \"%s\", \"format\": \"%s\", \"tokens\": %ld, \"threads\": %d, \"ms\": %.2f}\n",
      active().name, name_of(format).data(), static_cast<long>(n_tokens), ThreadPool::global().size(), ms);
}

}  // namespace
}  // namespace mneme::kernels

int main(int argc, char** argv) {
  using namespace mneme;
  const std::int64_t n_tokens = argc > 1 ? std::atoll(argv[1]) : 8192;
  for (DType format : {DType::kBFloat16, DType::kFloat16, DType::kFloat32}) {
    kernels::decode(format, n_tokens);
    kernels::prefill(format, 512);
    kernels::prefill(format, 2048);
    kernels::store(format, 512);
  }
}
