// Encoded blocks against raw bfloat16 ones, for a cache of SmolLM2's shape (30 layers, 3 key/value heads of 64, 9 query
// heads), one JSON line a codec.
//
//   codes_bench [n_tokens [codec]]      default 8192 and every codec; on all cores; MNEME_ISA=avx2 and so on choose
//                                      the kernels
//
// "step_ms" is the attention of one decoded token over all layers, beside "bfloat16_ms" over raw blocks, measured by
// turns since neighbours on the machine move both; "cached_ms" is the step where all layers read one layer's blocks, so
// that what computing takes is seen without what memory takes; "decode_gbps" is how fast one thread reads codes that it
// turns into bfloat16 tiles, "encode_us" what it takes for one head's keys and values.
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "mneme/base/flush_denormals.h"
#include "mneme/base/thread_pool.h"
#include "mneme/kernels/code_kernels.h"
#include "mneme/quant/block_codec.h"

namespace mneme {
namespace {

using kernels::kBlockTokens;
using kernels::kSpanBlocks;

constexpr std::int64_t kLayers = 30, kGroup = 3, kDim = 64;
constexpr kernels::BlockLayout kRaw{.format = DType::kBFloat16, .n_heads = 3, .key_dim = kDim, .value_dim = kDim};

template <class F>
double ms(F work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

/// Blocks of all layers, each a copy of one, in huge pages as a cache has them.
struct Blocks {
  std::unique_ptr<std::byte, decltype(&std::free)> memory{nullptr, std::free};
  std::vector<const std::byte*> pointers;

  Blocks(const std::vector<std::byte>& block, std::int64_t n) {
    constexpr std::size_t kHugePage = std::size_t{2} << 20;
    const std::size_t size = (block.size() + 63) / 64 * 64, count = static_cast<std::size_t>(n);
    const std::size_t n_bytes = (size * count + kHugePage - 1) / kHugePage * kHugePage;
    memory.reset(static_cast<std::byte*>(std::aligned_alloc(kHugePage, n_bytes)));
    ::madvise(memory.get(), n_bytes, MADV_HUGEPAGE);
    for (std::size_t i = 0; i < count; ++i) {
      std::copy(block.begin(), block.end(), memory.get() + size * i);
      pointers.push_back(memory.get() + size * i);
    }
  }
};

std::vector<std::byte> raw_block() {
  std::vector<std::byte> block(static_cast<std::size_t>(kRaw.block_bytes()));
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  std::vector<float> rows(kBlockTokens * kDim);
  for (std::int64_t head = 0; head < kRaw.n_heads; ++head) {
    for (float& x : rows) x = normal(generator);
    kernels::active()
        .of(kRaw.format)
        .store_tokens(kRaw, block.data() + head * kRaw.head_bytes(), 0, kBlockTokens, rows.data(), kDim, rows.data(),
                      kDim);
  }
  return block;
}

/// One token's attention over n_blocks blocks of every layer: raw, or all encoded.
class Step {
 public:
  Step(const Blocks& blocks, std::int64_t n_blocks, const kernels::BlockCodes* codes)
      : blocks_(blocks), n_blocks_(n_blocks), codes_(codes), q_(kGroup * kDim), prepared_(kGroup * 1024) {
    for (std::size_t i = 0; i < q_.size(); ++i) q_[i] = std::cos(static_cast<float>(i));
    format_.prepare(q_.data(), kDim, kGroup, kDim, prepared_.data());
    states_.resize(static_cast<std::size_t>(n_tasks() * state_floats()));
    if (codes) scratch_.resize(static_cast<std::size_t>(n_tasks() * kernels::decode_scratch_bytes(*codes)) + 64);
  }

  void run(bool cached = false) {
    for (std::int64_t layer = 0; layer < kLayers; ++layer) {
      ThreadPool::global().run(n_tasks(), [&](std::int64_t task) noexcept { attend(cached ? 0 : layer, task); });
    }
  }

 private:
  static std::int64_t state_floats() { return kGroup * kernels::attend_state_floats(kDim); }
  std::int64_t n_spans() const { return (n_blocks_ + kSpanBlocks - 1) / kSpanBlocks; }
  std::int64_t n_tasks() const { return kRaw.n_heads * n_spans(); }

  void attend(std::int64_t layer, std::int64_t task) {
    const std::int64_t head = task / n_spans(), begin = task % n_spans() * kSpanBlocks;
    const std::int64_t end = std::min(begin + kSpanBlocks, n_blocks_);
    const std::byte* const* blocks = blocks_.pointers.data() + layer * n_blocks_;
    const kernels::AttendArgs args{.q = prepared_.data(),
                                   .q_stride = format_.prepared_bytes(kDim),
                                   .n_rows = kGroup,
                                   .first_row = 0,
                                   .group = kGroup,
                                   .first_query = n_blocks_ * kBlockTokens - 1,
                                   .n_keys = 0,
                                   .blocks = blocks,
                                   .first_block = 0,
                                   .head_offset = head * kRaw.head_bytes(),
                                   .key_dim = kDim,
                                   .value_dim = kDim,
                                   .scale = 0.125f,
                                   .softcap = 0.0f,
                                   .visibility = {},
                                   .bias = {}};
    float* states = states_.data() + task * state_floats();
    if (!codes_) return format_.attend(args, begin, end, states);
    std::byte* scratch = scratch_.data() + (64 - reinterpret_cast<std::uintptr_t>(scratch_.data()) % 64) % 64;
    kernels::active()
        .codes->of(kRaw.format)
        .attend({.raw = args,
                 .q = q_.data(),
                 .codes = codes_,
                 .head = head,
                 .sealed = blocks,
                 .n_sealed = n_blocks_,
                 .scratch = scratch + task * kernels::decode_scratch_bytes(*codes_)},
                begin, end, states);
  }

  const kernels::FormatKernels& format_ = kernels::active().of(kRaw.format);
  const Blocks& blocks_;
  const std::int64_t n_blocks_;
  const kernels::BlockCodes* codes_;
  std::vector<float> q_, states_;
  std::vector<std::byte> prepared_, scratch_;
};

void measure(const quant::BlockCodec& codec, std::int64_t n_tokens) {
  const FlushDenormals mode;
  const std::int64_t n_blocks = (n_tokens + kBlockTokens - 1) / kBlockTokens;
  const std::vector<std::byte> raw = raw_block();
  std::vector<std::byte> block(static_cast<std::size_t>(codec.codes().block_bytes(true)));
  double encode = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 20; ++i) encode = std::min(encode, ms([&] { codec.encode(raw.data(), true, block.data()); }));

  const Blocks encoded_blocks(block, kLayers * n_blocks), raw_blocks(raw, kLayers * n_blocks);
  Step encoded_step(encoded_blocks, n_blocks, &codec.codes()), raw_step(raw_blocks, n_blocks, nullptr);
  std::vector<std::byte> back(raw.size());
  double step = std::numeric_limits<double>::infinity(), bfloat16 = step, decode = step, cached = step;
  for (int i = 0; i < 12; ++i) {
    step = std::min(step, ms([&] { encoded_step.run(); }));
    bfloat16 = std::min(bfloat16, ms([&] { raw_step.run(); }));
    cached = std::min(cached, ms([&] { encoded_step.run(true); }));
    decode = std::min(decode, ms([&] {
                        for (std::int64_t b = 0; b < n_blocks; ++b)
                          codec.decode(encoded_blocks.pointers[static_cast<std::size_t>(b)], true, back.data());
                      }));
  }
  std::printf(
      "{\"name\": \"%s\", \"isa\": \"%s\", \"tokens\": %ld, \"threads\": %d, \"bytes_of_bfloat16\": %.3f, \"step_ms\": "
      "%.2f, \"bfloat16_ms\": %.2f, \"cached_ms\": %.2f, \"decode_gbps\": %.2f, \"encode_us\": %.1f}\n",
      codec.name().c_str(), kernels::active().name, static_cast<long>(n_tokens), ThreadPool::global().size(),
      static_cast<double>(codec.codes().block_bytes(false)) / static_cast<double>(kRaw.block_bytes()), step, bfloat16,
      cached, static_cast<double>(n_blocks * codec.codes().block_bytes(false)) / decode / 1e6,
      encode * 1e3 / static_cast<double>(kRaw.n_heads));
}

}  // namespace
}  // namespace mneme

int main(int argc, char** argv) {
  using namespace mneme;
  const std::int64_t n_tokens = argc > 1 ? std::atoll(argv[1]) : 8192;
  const std::string only = argc > 2 ? argv[2] : "";
  for (const auto& codec : {quant::make_int8(kRaw), quant::make_fp8(kRaw), quant::make_quanto({}, kRaw),
                            quant::make_quanto({.axis_key = -1, .axis_value = -1}, kRaw), quant::make_hqq({}, kRaw),
                            quant::make_kivi({}, kRaw), quant::make_kivi({.nbits_value = 2}, kRaw),
                            quant::make_kivi({.nbits_key = 3, .nbits_value = 2}, kRaw),
                            quant::make_kivi({.nbits_key = 2, .nbits_value = 2}, kRaw)}) {
    if (only.empty() || codec->name() == only) measure(*codec, n_tokens);
  }
}
