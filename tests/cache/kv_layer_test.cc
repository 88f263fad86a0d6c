#include "mneme/cache/kv_layer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

#include "mneme/cache/cache.h"
#include "mneme/cache/plan.h"
#include "mneme/cache/staged_tier.h"
#include "mneme/ops/block_tensor.h"
#include "tests/support/dense_attention.h"
#include "tests/support/matrix.h"
#include "tests/support/thrown.h"

// What a layer shows is in contract_test.cc; this is how it takes and gives back memory, and attention's options.
namespace mneme {
namespace {

using ::testing::HasSubstr;
using testing::Matrix;
using testing::thrown;

struct Harness {
  kernels::BlockLayout layout = raw_layout(DType::kFloat32, 1, 16, 16);
  std::shared_ptr<BlockPool> pool = std::make_shared<BlockPool>(
      layout.block_bytes(), std::make_shared<DeviceTier>(at::kCPU), std::make_shared<ByteBudget>(0));
  ops::Workspace workspace{at::kCPU};

  KvLayer layer(const Retention& retention, std::int64_t n_sequences = 1) {
    KvLayer result({.retention = retention, .layout = layout, .raw_pool = pool});
    result.start(n_sequences);
    return result;
  }
  void append(KvLayer& layer, std::int64_t n, unsigned seed = 1) {
    const at::Tensor t = Matrix::random(n, 16, seed).tensor().view({1, 1, n, 16}).clone();
    layer.update(workspace, t, t);
  }
};

TEST(KvLayer, TakesBlocksAsTokensCome) {
  Harness h;
  KvLayer layer = h.layer(Retention::all());
  for (std::int64_t n = 1; n <= 200; ++n) {
    h.append(layer, 1);
    ASSERT_EQ(h.pool->n_in_use(), (n + 63) / 64);
  }
}

TEST(KvLayer, BlocksNeededIsEnough) {
  for (const Retention& retention : {Retention::all(), Retention::last(1), Retention::last(65), Retention::chunk(70),
                                     Retention::sinks_and_last(4, 8)}) {
    for (const std::int64_t before : {0, 1, 63, 64, 100, 300}) {
      for (const std::int64_t n : {1, 63, 64, 65, 200}) {
        Harness h;
        KvLayer layer = h.layer(retention);
        if (before) h.append(layer, before);
        const KvLayer fork = layer;  // its tail is shared now
        const std::int64_t counts[] = {n};
        const std::int64_t needed = layer.blocks_needed(counts).raw;
        h.pool->reserve(needed);
        const std::int64_t capacity = h.pool->capacity();
        h.append(layer, n);
        ASSERT_EQ(h.pool->capacity(), capacity) << retention.name() << ' ' << before << " + " << n;
        ASSERT_LE(needed, (n + 63) / 64 + 2);
      }
    }
  }
}

TEST(KvLayer, PeakBlocksIsWhatAPromptOfAnyLengthHolds) {
  for (const Retention& retention :
       {Retention::all(), Retention::last(1), Retention::last(2), Retention::last(64), Retention::last(100),
        Retention::chunk(8), Retention::chunk(70), Retention::sinks_and_last(70, 65)}) {
    for (const std::int64_t length : {1, 64, 65, 129, 1000}) {
      Harness h;
      h.pool->reserve(KvSequence::peak(h.layer(retention).storage(), length).raw);
      const std::int64_t capacity = h.pool->capacity();
      KvLayer at_once = h.layer(retention);
      h.append(at_once, length);
      at_once.reset();
      KvLayer piecewise = h.layer(retention);
      for (std::int64_t n = 0; n < length; n += 37) h.append(piecewise, std::min<std::int64_t>(37, length - n));
      EXPECT_EQ(h.pool->capacity(), capacity) << retention.name() << ' ' << length;
    }
  }
}

TEST(KvLayer, ASharedTailIsCopiedOnce) {
  Harness h;
  KvLayer layer = h.layer(Retention::all());
  h.append(layer, 100);
  KvLayer fork = layer;
  EXPECT_EQ(h.pool->n_in_use(), 2);
  h.append(fork, 1);
  EXPECT_EQ(h.pool->n_in_use(), 3);
  for (int i = 0; i < 20; ++i) h.append(fork, 1);
  EXPECT_EQ(h.pool->n_in_use(), 3);
  h.append(layer, 1);  // nobody else holds its tail any more
  EXPECT_EQ(h.pool->n_in_use(), 3);
}

TEST(KvLayer, GivesBackWhenItIsAssignedOrReset) {
  Harness h;
  {
    KvLayer a = h.layer(Retention::all());
    h.append(a, 100);
    a.reset();
    EXPECT_EQ(h.pool->n_in_use(), 0);
    EXPECT_EQ(a.n_sequences(), 0);
  }
  // The assigned layer was the last to hold its pool.
  auto other = std::make_unique<Harness>();
  KvLayer a = h.layer(Retention::all()), b = other->layer(Retention::last(8));
  h.append(a, 70);
  other->append(b, 70);
  other.reset();
  b = a;
  b = std::move(a);
  EXPECT_EQ(b.length(0), 70);
  EXPECT_EQ(h.pool->n_in_use(), 2);
}

TEST(KvLayer, SpareSlotsAreZeroAfterACrop) {
  Harness h;
  KvLayer layer = h.layer(Retention::all());
  h.append(layer, 60);
  layer.crop(50);
  h.append(layer, 1);
  layer.each_block([&](const BlockRef& block) {
    const auto [k, v] = ops::load_tokens(h.layout, block.data(), 11, 53, at::kCPU);
    EXPECT_TRUE(k.eq(0).all().item<bool>() && v.eq(0).all().item<bool>());
  });
}

TEST(KvLayer, AttendTakesSoftcapSinksAndScale) {
  Harness h;
  for (const Retention& retention : {Retention::all(), Retention::last(5)}) {
    KvLayer layer = h.layer(retention);
    Matrix keys = Matrix::random(20, 16, 1), values = Matrix::random(20, 16, 2), q = Matrix::random(20, 3 + 48, 3),
           out(20, 48);
    const std::vector<float> sinks = {0.5f, -1.0f, 2.0f};
    const std::int64_t row_starts[] = {0, 20};
    layer.attend(h.workspace, row_starts, {.keys = keys.rows(), .values = values.rows()},
                 {.q = q.rows(),
                  .q_offset = 3,
                  .n_heads = 3,
                  .scale = 0.3f,
                  .softcap = 4.0f,
                  .sinks = testing::tensor_of(sinks)},
                 out.rows());
    const testing::DenseAttention dense{
        .key_dim = 16, .value_dim = 16, .scale = 0.3f, .softcap = 4.0, .visibility = retention.visibility()};
    for (std::int64_t i = 0; i < 20; ++i) {
      for (std::int64_t head = 0; head < 3; ++head) {
        const auto exact = dense(
            q.row(i) + 3 + 16 * head, i, [&](std::int64_t j) { return keys.row(j); },
            [&](std::int64_t j) { return values.row(j); }, sinks[static_cast<std::size_t>(head)]);
        for (std::int64_t d = 0; d < 16; ++d)
          ASSERT_NEAR(out.row(i)[16 * head + d], exact[static_cast<std::size_t>(d)], 1e-5);
      }
    }
  }
}

// Cross-attention and encoders: keys first, then queries that see all of them and add nothing.
TEST(KvLayer, AppendAndAttendToAllAreTheHalvesOfAttend) {
  Harness h;
  KvLayer layer = h.layer(Retention::all(), 3);
  Matrix keys = Matrix::random(270, 16, 1), values = Matrix::random(270, 16, 2), q = Matrix::random(7, 2 + 32, 3),
         out(7, 32);
  const std::int64_t source_starts[] = {0, 1, 70, 270}, row_starts[] = {0, 1, 6, 7};
  layer.append(h.workspace, source_starts, {.keys = keys.rows(), .values = values.rows()});
  EXPECT_EQ(layer.length(2), 200);
  for (int again = 0; again < 2; ++again) {
    layer.attend_to_all(h.workspace, row_starts, {.q = q.rows(), .q_offset = 2, .n_heads = 2, .scale = 0.5f},
                        out.rows());
    for (std::int64_t s = 0; s < 3; ++s) {
      const std::int64_t first = source_starts[s], n = source_starts[s + 1] - first;
      const testing::DenseAttention dense{.key_dim = 16, .value_dim = 16, .scale = 0.5f, .n_keys = n};
      for (std::int64_t i = row_starts[s]; i < row_starts[s + 1]; ++i) {
        for (std::int64_t head = 0; head < 2; ++head) {
          const auto exact = dense(
              q.row(i) + 2 + 16 * head, 0, [&](std::int64_t j) { return keys.row(first + j); },
              [&](std::int64_t j) { return values.row(first + j); });
          for (std::int64_t d = 0; d < 16; ++d)
            ASSERT_NEAR(out.row(i)[16 * head + d], exact[static_cast<std::size_t>(d)], 1e-5);
        }
      }
    }
    EXPECT_EQ(layer.length(2), 200);
  }
}

TEST(KvLayer, AttendToAllRefusesWhatCannotShowAll) {
  Harness h;
  Matrix rows(1, 16), out(1, 16);
  const std::int64_t row_starts[] = {0, 1};
  const auto refusal = [&](const KvLayer& layer, ErrorKind kind) {
    return thrown(kind,
                  [&] { layer.attend_to_all(h.workspace, row_starts, {.q = rows.rows(), .n_heads = 1}, out.rows()); });
  };
  EXPECT_THAT(refusal(h.layer(Retention::last(8)), ErrorKind::kFailedPrecondition), HasSubstr("last 8"));
  EXPECT_THAT(refusal(h.layer(Retention::all()), ErrorKind::kFailedPrecondition), HasSubstr("no token to attend to"));
  EXPECT_THAT(refusal(h.layer(Retention::all(), 2), ErrorKind::kInvalidArgument), HasSubstr("holds 2"));
}

// How a device works whose blocks lie with the host: by copies, encoded there or not.
TEST(KvLayer, StagedBlocksGiveTheSameBits) {
  const Harness h;
  ops::Workspace workspace(at::kCPU);
  for (const bool encoded : {false, true}) {
    const auto codec = encoded ? quant::make_int8(h.layout) : nullptr;
    const std::int64_t bytes = codec ? codec->codes().block_bytes(false) : h.layout.block_bytes();
    const auto staged = std::make_shared<StagedTier>(std::make_shared<HostTier>(at::Device(at::kCPU)), at::kCPU);
    std::vector<std::vector<float>> outputs[2];
    for (const bool with_stage : {false, true}) {
      const std::shared_ptr<Tier> tier = with_stage ? staged : std::shared_ptr<Tier>(new DeviceTier(at::kCPU));
      const auto pool = std::make_shared<BlockPool>(bytes, tier, std::make_shared<ByteBudget>(0));
      KvLayer layer({.layout = h.layout, .codec = codec, .raw_pool = h.pool, .sealed_pool = pool, .first_pool = pool});
      if (with_stage) layer.set_prefetcher(std::make_shared<Prefetcher>(tier, 1), 0);
      layer.start(1);
      unsigned seed = 0;
      for (const std::int64_t n : {70, 1, 200, 1, 57, 1}) {
        Matrix keys = Matrix::random(n, 16, ++seed), values = Matrix::random(n, 16, ++seed);
        Matrix q = Matrix::random(n, 16, ++seed), out(n, 16);
        const std::int64_t starts[] = {0, n};
        layer.attend(workspace, starts, {.keys = keys.rows(), .values = values.rows()},
                     {.q = q.rows(), .n_heads = 1, .scale = 0.25f}, out.rows());
        outputs[with_stage].push_back(out.values);
      }
      layer.crop(100);  // opens a sealed block again
      const at::Tensor left = layer.keys();
      outputs[with_stage].emplace_back(left.const_data_ptr<float>(), left.const_data_ptr<float>() + left.numel());
    }
    EXPECT_EQ(outputs[0], outputs[1]) << encoded;
  }
}

/// The host's memory behind copies that take their time.
class SlowTier final : public Tier {
 public:
  std::string name() const override { return "slow"; }
  bool resident() const override { return false; }
  TierMemory take(std::int64_t n) override { return host_.take(n); }
  void write(std::byte* to, const std::byte* from, std::int64_t n, at::Device where) override {
    host_.write(to, from, n, where);
  }
  void zero(std::byte* data, std::int64_t n) override { host_.zero(data, n); }
  void fetch(std::span<const ByteRange>) override {
    std::this_thread::sleep_for(std::chrono::microseconds((turn_.fetch_add(1) * 7919) % 500));
  }

 private:
  HostTier host_{at::Device(at::kCPU)};
  std::atomic<int> turn_{0};
};

// Layers read what the prefetcher's thread copies for them, however late it comes.
TEST(KvLayer, ConcurrentSlowCopiesGiveTheSameBits) {
  const Harness h;
  ops::Workspace workspace(at::kCPU);
  std::vector<float> outputs[2];
  for (const bool slow : {false, true}) {
    const std::shared_ptr<Tier> tier = slow ? std::make_shared<StagedTier>(std::make_shared<SlowTier>(), at::kCPU)
                                            : std::shared_ptr<Tier>(new DeviceTier(at::kCPU));
    const auto prefetcher = slow ? std::make_shared<Prefetcher>(tier, 3) : nullptr;
    std::vector<KvLayer> layers;
    for (std::int64_t l = 0; l < 3; ++l) {
      const auto pool = std::make_shared<BlockPool>(h.layout.block_bytes(), tier, std::make_shared<ByteBudget>(0));
      layers.emplace_back(KvStorage{.layout = h.layout, .raw_pool = h.pool, .sealed_pool = pool, .first_pool = pool});
      if (slow) layers.back().set_prefetcher(prefetcher, l);
      layers.back().start(1);
    }
    for (unsigned step = 0; step < 200; ++step) {
      const std::int64_t n = step == 0 ? 150 : 1, starts[] = {0, n};
      for (unsigned l = 0; l < 3; ++l) {
        Matrix keys = Matrix::random(n, 16, 3 * step + l), q = Matrix::random(n, 16, step), out(n, 16);
        layers[l].attend(workspace, starts, {.keys = keys.rows(), .values = keys.rows()},
                         {.q = q.rows(), .n_heads = 1, .scale = 0.25f}, out.rows());
        outputs[slow].insert(outputs[slow].end(), out.values.begin(), out.values.end());
      }
    }
  }
  EXPECT_EQ(outputs[0], outputs[1]);
}

/// Caches of one layer: raw, sealed as they are, and encoded, in memory and on disk.
std::vector<CacheOptions> one_layer_options() {
  const CacheConfig on_disk{.offloading = true, .offload_only_non_sliding = false};
  const CacheConfig int8{.backend = "int8", .residual_length = 0};
  const CacheConfig kivi{
      .backend = "kivi", .nbits_key = 4, .nbits_value = 2, .q_group_size = 16, .residual_length = 64};
  return {{},
          {.max_cache_len = 600, .max_batch_size = 3},
          {.config = on_disk},
          {.quantized = true, .config = int8},
          {.max_cache_len = 600, .max_batch_size = 3, .quantized = true, .config = int8},
          {.quantized = true, .config = kivi}};
}

class SharedKvLayer {
 public:
  SharedKvLayer(const Retention& retention, const CacheOptions& options, std::int64_t n_readers)
      : cache_({.layers = {{.retention = retention,
                            .n_heads = 1,
                            .key_dim = 16,
                            .value_dim = 16,
                            .state = {},
                            .n_readers = n_readers}}},
               options) {}

  Cache& cache() { return cache_; }
  KvLayer& layer() { return cache_.layers()[0].attention(); }

  /// Appends what a seed says and attends from the queries of another one, then again from each of the rest.
  std::vector<std::vector<float>> pass(const std::vector<std::int64_t>& counts, unsigned seed,
                                       const std::vector<unsigned>& query_seeds) {
    std::vector<std::int64_t> starts{0};
    for (const std::int64_t n : counts) starts.push_back(starts.back() + n);
    Matrix keys = Matrix::random(starts.back(), 16, seed), values = Matrix::random(starts.back(), 16, seed + 1);
    std::vector<std::vector<float>> outputs;
    Cache::Pass pass(cache_, counts);
    for (const unsigned query_seed : query_seeds) {
      Matrix q = Matrix::random(starts.back(), 16, query_seed), out(starts.back(), 16);
      const AttendQuery query{.q = q.rows(), .n_heads = 1, .scale = 0.25f};
      if (outputs.empty()) {
        layer().attend(cache_.workspace(), starts, {.keys = keys.rows(), .values = values.rows()}, query, out.rows());
      } else {
        layer().attend_again(cache_.workspace(), starts, query, out.rows());
      }
      outputs.push_back(std::move(out.values));
    }
    pass.done();
    return outputs;
  }

 private:
  Cache cache_;
};

// Layers of a model that have no keys and values of their own see what they would see in a copy of the layer that they
// read, in passes of any length, and leave what that copy holds.
TEST(KvLayer, ReadersSeeWhatTheWriterSawAndLeaveItsBlocks) {
  for (const Retention& retention : {Retention::all(), Retention::last(8), Retention::last(100), Retention::chunk(70),
                                     Retention::sinks_and_last(4, 60)}) {
    for (const CacheOptions& options : one_layer_options()) {
      SharedKvLayer shared(retention, options, 2),
          plain[] = {{retention, options, 0}, {retention, options, 0}, {retention, options, 0}};
      SCOPED_TRACE(retention.name() + ", " + shared.cache().implementation());
      unsigned seed = 0;
      const auto pass = [&](const std::vector<std::int64_t>& counts) {
        seed += 10;
        const auto outputs = shared.pass(counts, seed, {seed + 2, seed + 3, seed + 4});
        for (unsigned i = 0; i < 3; ++i)
          ASSERT_EQ(outputs[i], plain[i].pass(counts, seed, {seed + 2 + i})[0]) << "reader " << i;
        if (options.max_cache_len) return;  // it takes its memory at once
        ASSERT_EQ(shared.cache().n_bytes(), plain[0].cache().n_bytes());
        ASSERT_EQ(shared.cache().n_bytes_offloaded(), plain[0].cache().n_bytes_offloaded());
      };
      for (const auto& counts : std::vector<std::vector<std::int64_t>>{{150, 3}, {1, 1}, {64, 0}, {1, 200}, {1, 1}})
        pass(counts);
      for (Cache* cache : {&shared.cache(), &plain[0].cache(), &plain[1].cache(), &plain[2].cache()})
        cache->activate_past_recording();
      pass({90, 1});
      pass({1, 70});
      for (Cache* cache : {&shared.cache(), &plain[0].cache(), &plain[1].cache(), &plain[2].cache()}) cache->crop(-60);
      pass({1, 1});
      pass({30, 100});
    }
  }
}

TEST(KvLayer, AStaticLayerThatOthersReadTakesNothingMoreForAPrompt) {
  for (const Retention& retention : {Retention::all(), Retention::last(8)}) {
    for (const CacheOptions& options : one_layer_options()) {
      if (!options.max_cache_len) continue;
      SharedKvLayer shared(retention, options, 1);
      const std::int64_t n_bytes = shared.cache().n_bytes();
      shared.pass({600, 300, 1}, 1, {2, 3});
      EXPECT_EQ(shared.cache().n_bytes(), n_bytes) << retention.name();
    }
  }
}

TEST(KvLayer, AReaderTooManyIsRefusedAndAPassThatLacksOneIsForgotten) {
  SharedKvLayer shared(Retention::last(8), {}, 1), plain(Retention::last(8), {}, 0);
  EXPECT_THAT(thrown(ErrorKind::kFailedPrecondition,
                     [&] {
                       shared.pass({70}, 1, {3, 4, 5});
                     }),
              HasSubstr("read by 1 layers besides the one that writes it, and all have read"));
  shared.cache().reset();
  EXPECT_EQ(shared.pass({70}, 1, {3})[0], plain.pass({70}, 1, {3})[0]);
  EXPECT_EQ(shared.pass({5}, 2, {3, 4})[0], plain.pass({5}, 2, {3})[0]);
  EXPECT_EQ(shared.cache().n_bytes(), plain.cache().n_bytes());
}

TEST(KvLayer, AttendRefusesAnotherNumberOfSequences) {
  Harness h;
  KvLayer layer = h.layer(Retention::all(), 2);
  Matrix rows(1, 16), out(1, 16);
  const std::int64_t row_starts[] = {0, 1};
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument,
                     [&] {
                       layer.attend(h.workspace, row_starts, {.keys = rows.rows(), .values = rows.rows()},
                                    {.q = rows.rows(), .n_heads = 1}, out.rows());
                     }),
              HasSubstr("1 sequences were given to a layer that holds 2"));
}

}  // namespace
}  // namespace mneme
