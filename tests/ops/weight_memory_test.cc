#include "mneme/ops/weight_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "tests/support/thrown.h"

namespace mneme::ops {
namespace {

using testing::thrown;

bool is_zero(const WeightMemory& memory) {
  for (std::int64_t i = 0; i < memory.n_bytes(); ++i) {
    if (memory.data()[i] != std::byte{0}) return false;
  }
  return true;
}

TEST(WeightMemory, PiecesAreZeroAlignedAndApart) {
  std::vector<WeightMemory> pieces;
  for (int i = 0; i < 300; ++i) {
    pieces.emplace_back(1 + 7919 * i, at::kCPU);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pieces.back().data()) % 64, 0u);
    ASSERT_TRUE(is_zero(pieces.back())) << i;
    std::memset(pieces.back().data(), 1 + i % 255, static_cast<std::size_t>(pieces.back().n_bytes()));
  }
  for (int i = 0; i < 300; ++i) {
    const WeightMemory& piece = pieces[static_cast<std::size_t>(i)];
    EXPECT_EQ(piece.data()[0], std::byte(1 + i % 255));
    EXPECT_EQ(piece.data()[piece.n_bytes() - 1], std::byte(1 + i % 255));
  }
}

TEST(WeightMemory, SmallPiecesLieSideBySide) {
  const WeightMemory a(1000, at::kCPU), b(1000, at::kCPU);
  EXPECT_EQ(b.data() - a.data(), 1024);
}

TEST(WeightMemory, APieceOutlivesItsNeighbours) {
  WeightMemory kept;
  {
    const WeightMemory before(4096, at::kCPU);
    kept = WeightMemory(4096, at::kCPU);
  }
  std::memset(kept.data(), 1, 4096);
  const WeightMemory after(4096, at::kCPU);
  EXPECT_TRUE(is_zero(after));
}

TEST(WeightMemory, ThreadsGetPiecesOfTheirOwn) {
  std::vector<std::vector<WeightMemory>> pieces(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&pieces, t] {
      for (int i = 0; i < 200; ++i) {
        pieces[t].emplace_back(100, at::kCPU);
        std::memset(pieces[t].back().data(), static_cast<int>(t + 1), 100);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t t = 0; t < 4; ++t) {
    for (const WeightMemory& piece : pieces[t]) {
      EXPECT_EQ(piece.data()[0], std::byte(t + 1));
      EXPECT_EQ(piece.data()[99], std::byte(t + 1));
    }
  }
}

TEST(WeightMemory, NothingAndTheImpossible) {
  EXPECT_EQ(WeightMemory(0, at::kCPU).data(), nullptr);
  EXPECT_THAT(thrown(ErrorKind::kOutOfMemory, [] { WeightMemory(std::int64_t{1} << 62, at::kCPU); }),
              ::testing::HasSubstr("4611686018427387904"));
  thrown(ErrorKind::kInvalidArgument, [] { WeightMemory(-1, at::kCPU); });
}

}  // namespace
}  // namespace mneme::ops
