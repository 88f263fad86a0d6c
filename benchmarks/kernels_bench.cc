// Matrix products against what the machine can do, as JSON lines.
//
//   kernels_bench [threads]      MNEME_ISA=avx2 kernels_bench
//
// A host's neighbours move every figure, so peak, bandwidth and product are measured in turn, and the ratios are
// medians over the rounds. "of_peak" is of the fused multiply-adds that the same threads do without touching memory,
// "of_stream" of the speed at which they read memory. No figure is printed unless the products are right to the bit.
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "mneme/base/flush_denormals.h"
#include "mneme/base/thread_pool.h"
#include "mneme/kernels/kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace mneme::kernels {
namespace {

constexpr int kRounds = 15;
constexpr std::int64_t kModelBytes = 269 << 20;  // SmolLM2-135M in bfloat16

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

template <class F>
double time_of(F f) {
  const double start = seconds();
  f();
  return seconds() - start;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Pages of 2 MB where the system has them: with small ones, half of the time goes to address translation.
struct Buffer {
  explicit Buffer(std::int64_t n_bytes) : size(static_cast<std::size_t>(n_bytes)) {
    void* pages = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) std::exit(3);
    madvise(pages, size, MADV_HUGEPAGE);
    data = static_cast<std::byte*>(pages);
  }
  ~Buffer() { munmap(data, size); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data;
  std::size_t size;
};

// Twelve chains of multiply-adds: enough for the latency of every processor so far. Returns operations.
#if defined(__x86_64__)
[[gnu::target("avx2,fma")]] double fma_avx2(int n) {
  __m256 sums[12];
#pragma GCC unroll 12
  for (__m256& sum : sums) sum = _mm256_set1_ps(1.0f);
  const __m256 a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(0.001f);
  for (int i = 0; i < n; ++i) {
#pragma GCC unroll 12
    for (__m256& sum : sums) {
      sum = _mm256_fmadd_ps(sum, a, b);
      asm volatile("" : "+x"(sum));
    }
  }
  return 12.0 * 16 * n;
}
[[gnu::target("avx512f")]] double fma_avx512(int n) {
  __m512 sums[12];
#pragma GCC unroll 12
  for (__m512& sum : sums) sum = _mm512_set1_ps(1.0f);
  const __m512 a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(0.001f);
  for (int i = 0; i < n; ++i) {
#pragma GCC unroll 12
    for (__m512& sum : sums) {
      sum = _mm512_fmadd_ps(sum, a, b);
      asm volatile("" : "+v"(sum));
    }
  }
  return 12.0 * 32 * n;
}
#endif

/// Operations done in about a millisecond; 0 where there is no figure to compare with.
double multiply_add(const std::string& isa) {
#if defined(__x86_64__)
  if (isa == "avx2") return fma_avx2(150000);
  if (isa != "scalar") return fma_avx512(150000);
#endif
  return isa.empty();
}

/// The sum of all words, read in four places at once: one stream alone does not fill a core's share of the bus.
std::uint64_t read_all(const std::byte* data, std::int64_t n_bytes) {
  using Vector [[gnu::vector_size(64), gnu::may_alias]] = std::uint64_t;
  Vector sums[4] = {};
  for (std::int64_t i = 0; i < n_bytes / 4; i += sizeof(Vector)) {
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) sums[k] += *reinterpret_cast<const Vector*>(data + k * (n_bytes / 4) + i);
  }
  const Vector total = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  std::uint64_t sum = 0;
  for (int i = 0; i < 8; ++i) sum += total[i];
  return sum;
}

double stream_seconds(ThreadPool& pool, const Buffer& buffer) {
  constexpr std::int64_t kPiece = 1 << 20;
  const auto n = static_cast<std::int64_t>(buffer.size) / kPiece;
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(n));
  const double time = time_of([&] {
    pool.run(n,
             [&](std::int64_t i) { sums[static_cast<std::size_t>(i)] = read_all(buffer.data + i * kPiece, kPiece); });
  });
  volatile std::uint64_t sink = sums[0];
  static_cast<void>(sink);
  return time * static_cast<double>(buffer.size) / static_cast<double>(n * kPiece);
}

struct Layer {
  DType format;
  std::int64_t n_rows, inner, n_panels;
  Buffer panels, rows;
  std::int64_t x_stride;
  std::vector<float> x, y;

  Layer(const Table& table, DType f, std::int64_t m, std::int64_t k, std::int64_t p)
      : format(f),
        n_rows(m),
        inner(k),
        n_panels(p),
        panels(p * panel_bytes(f, k)),
        rows(m * (k + 64) * 8),
        x_stride(table.of(f).prepared_bytes(k)),
        x(static_cast<std::size_t>(m * k)),
        y(static_cast<std::size_t>(m * p * kPanel)) {
    std::mt19937 generator(1);
    std::normal_distribution<float> normal;
    for (float& value : x) value = normal(generator);
    std::vector<float> some(static_cast<std::size_t>(kPanel * k));
    for (float& value : some) value = normal(generator);
    pack_panel(f, some.data(), kPanel, k, panels.data);
    const std::int64_t bytes = panel_bytes(f, k);
    for (std::int64_t i = 1; i < p; ++i)
      std::memcpy(panels.data + i * bytes, panels.data, static_cast<std::size_t>(bytes));
    if (x_stride) {
      table.of(f).prepare(x.data(), k, m, k, rows.data);
    } else {
      x_stride = k * 4;
      std::memcpy(rows.data, x.data(), static_cast<std::size_t>(m * k * 4));
    }
  }

  void multiply(const Table& table, std::int64_t panel, std::int64_t n) {
    table.of(format).linear({.x = rows.data,
                             .x_stride = x_stride,
                             .panels = panels.data + panel * panel_bytes(format, inner),
                             .bias = nullptr,
                             .y = y.data() + panel * kPanel,
                             .y_stride = n_panels * kPanel,
                             .n_rows = n_rows,
                             .inner = inner,
                             .n_columns = n * kPanel});
  }
  void multiply(const Table& table, ThreadPool& pool) {
    const std::int64_t step = n_rows == 1 ? 32 : 4, n_tasks = (n_panels + step - 1) / step;
    pool.run(n_tasks, [&](std::int64_t i) { multiply(table, i * step, std::min(step, n_panels - i * step)); });
  }
};

bool is_right(const Table& table, DType format) {
  for (const std::int64_t n_rows : {1, 7, 40}) {
    Layer fast(table, format, n_rows, 576, 4), slow(*available().front(), format, n_rows, 576, 4);
    const FlushDenormals flush;
    fast.multiply(table, 0, 4);
    slow.multiply(*available().front(), 0, 4);
    if (std::memcmp(fast.y.data(), slow.y.data(), fast.y.size() * 4) != 0) return false;
  }
  return true;
}

void prefill(const Table& table, ThreadPool& pool, DType format, std::int64_t inner, std::int64_t n_columns) {
  Layer layer(table, format, 512, inner, n_columns / kPanel);
  const double operations = 2.0 * 512 * static_cast<double>(inner * n_columns);
  std::vector<double> speeds, ratios;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<double> done(64);
    const double peak_time = time_of(
        [&] { pool.run(64, [&](std::int64_t i) { done[static_cast<std::size_t>(i)] = multiply_add(table.name); }); });
    const double time = time_of([&] { layer.multiply(table, pool); });
    speeds.push_back(operations / time / 1e9);
    ratios.push_back(done[0] > 0 ? operations / time / (64 * done[0] / peak_time) : 0);
  }
  std::printf(
      "{\"benchmark\":\"prefill\",\"isa\":\"%s\",\"format\":\"%s\",\"threads\":%d,\"rows\":512,\"inner\":%ld,"
      "\"columns\":%ld,\"gflops\":%.1f,\"best_gflops\":%.1f,\"of_peak\":%.3f}\n",
      table.name, std::string(name_of(format)).c_str(), pool.size(), static_cast<long>(inner),
      static_cast<long>(n_columns), median(speeds), *std::max_element(speeds.begin(), speeds.end()), median(ratios));
}

void decode(const Table& table, ThreadPool& pool, DType format, std::int64_t inner) {
  Layer layer(table, format, 1, inner, kModelBytes / panel_bytes(format, inner));
  std::vector<double> speeds, ratios;
  for (int round = 0; round < kRounds; ++round) {
    const double stream = stream_seconds(pool, layer.panels);
    const double time = time_of([&] { layer.multiply(table, pool); });
    speeds.push_back(static_cast<double>(layer.panels.size) / time / 1e9);
    ratios.push_back(stream / time);
  }
  std::printf(
      "{\"benchmark\":\"decode\",\"isa\":\"%s\",\"format\":\"%s\",\"threads\":%d,\"inner\":%ld,\"bytes\":%zu,"
      "\"gb_per_s\":%.1f,\"best_gb_per_s\":%.1f,\"of_stream\":%.3f}\n",
      table.name, std::string(name_of(format)).c_str(), pool.size(), static_cast<long>(inner), layer.panels.size,
      median(speeds), *std::max_element(speeds.begin(), speeds.end()), median(ratios));
}

void fork_join(ThreadPool& pool) {
  std::vector<double> times;
  for (int round = 0; round < 1000; ++round) {
    times.push_back(time_of([&] {
                      for (int i = 0; i < 100; ++i) pool.run(pool.size(), [](std::int64_t) {});
                    }) /
                    100);
  }
  std::printf("{\"benchmark\":\"fork_join\",\"threads\":%d,\"ns\":%.0f}\n", pool.size(), median(times) * 1e9);
}

int run(int n_threads) {
  ThreadPool pool(n_threads);
  const Table& table = active();
  fork_join(pool);
  for (const DType format : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    if (!is_right(table, format)) {
      std::fprintf(stderr, "%s products of %s differ from the scalar ones\n", std::string(name_of(format)).c_str(),
                   table.name);
      return 1;
    }
    prefill(table, pool, format, 576, 960);
    prefill(table, pool, format, 576, 3072);
    prefill(table, pool, format, 1536, 576);
    decode(table, pool, format, 576);
    decode(table, pool, format, 1536);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace mneme::kernels

int main(int argc, char** argv) {
  return mneme::kernels::run(argc > 1 ? std::max(1, std::atoi(argv[1])) : mneme::ThreadPool::global().size());
}
