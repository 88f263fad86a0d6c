#include "mneme/ops/workspace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

#include "tests/support/matrix.h"
#include "tests/support/thrown.h"

namespace mneme::ops {
namespace {

using testing::bits;
using testing::Matrix;
using testing::thrown;

TEST(DeviceBuffer, IsZeroAndWritable) {
  for (const std::int64_t n : {1, 4096, 5 << 20}) {
    const DeviceBuffer buffer(n, at::kCPU);
    ASSERT_EQ(buffer.n_bytes(), n);
    for (std::int64_t i = 0; i < n; i += 4095) ASSERT_EQ(buffer.data()[i], std::byte{0});
    std::memset(buffer.data(), 1, static_cast<std::size_t>(n));
  }
}

TEST(DeviceBuffer, NothingIsNothing) { EXPECT_EQ(DeviceBuffer(0, at::kCPU).data(), nullptr); }

TEST(DeviceBuffer, MovesItsMemory) {
  DeviceBuffer a(64, at::kCPU), b(128, at::kCPU);
  std::byte* const of_a = a.data();
  b = std::move(a);
  EXPECT_EQ(b.data(), of_a);
  EXPECT_EQ(b.n_bytes(), 64);
  const DeviceBuffer c(std::move(b));
  EXPECT_EQ(c.data(), of_a);
}

TEST(DeviceBuffer, RefusesWhatCannotBe) {
  EXPECT_THAT(thrown(ErrorKind::kOutOfMemory, [] { DeviceBuffer(std::int64_t{1} << 62, at::kCPU); }),
              ::testing::HasSubstr("4611686018427387904"));
  thrown(ErrorKind::kInvalidArgument, [] { DeviceBuffer(-1, at::kCPU); });
}

TEST(Arena, AlignsAndKeepsApart) {
  Arena arena(at::kCPU);
  std::byte* last_end = nullptr;
  for (const std::int64_t n : {1, 63, 64, 65, 1000}) {
    std::byte* p = arena.bytes(n);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % 64, 0u);
    if (last_end) {
      EXPECT_GE(p, last_end);
    }
    last_end = p + n;
  }
}

TEST(Arena, GivesTheSameMemoryAfterRewinding) {
  Arena arena(at::kCPU);
  arena.bytes(100);
  const Arena::Mark mark = arena.mark();
  std::byte* const first = arena.bytes(1000);
  arena.bytes(3 << 20);  // in a further buffer
  arena.rewind(mark);
  EXPECT_EQ(arena.bytes(1000), first);
}

TEST(Arena, BuffersGrowSoThatTheyStayFew) {
  Arena arena(at::kCPU);
  for (int i = 0; i < 1000; ++i) arena.bytes(1 << 18);  // 250 MiB of address space, hardly touched
  EXPECT_LE(arena.n_allocations(), 10);
  EXPECT_GE(arena.n_bytes(), std::int64_t{1000} << 18);
}

TEST(Workspace, ASteadyLoopAllocatesNothing) {
  Workspace workspace(at::kCPU);
  std::int64_t after_first = 0;
  for (int step = 0; step < 50; ++step) {
    const Workspace::Scope scope(workspace);
    for (const std::int64_t n : {10, 300000, 70, 2000000}) {
      const Workspace::Scope inner(workspace);
      workspace.floats(n)[n - 1] = 1;
      workspace.host_bytes(n)[n - 1] = std::byte{1};
    }
    if (step == 0) after_first = workspace.n_allocations();
  }
  EXPECT_EQ(workspace.n_allocations(), after_first);
}

TEST(Workspace, ScopesNest) {
  Workspace workspace(at::kCPU);
  float* outer = workspace.floats(4);
  std::fill_n(outer, 4, 7.0f);
  {
    const Workspace::Scope scope(workspace);
    std::fill_n(workspace.floats(1000), 1000, 1.0f);
  }
  std::fill_n(workspace.floats(1000), 1000, 2.0f);
  EXPECT_EQ(outer[3], 7.0f);
}

TEST(Workspace, UsesKernelsUnlessToldOtherwise) {
  Workspace workspace(at::kCPU);
  EXPECT_TRUE(workspace.uses_kernels());
  workspace.set_through_aten(true);
  EXPECT_FALSE(workspace.uses_kernels());
}

TEST(Rows, AsTensorIsAView) {
  const Workspace workspace(at::kCPU);
  Matrix m = Matrix::random(3, 5, 1);
  const at::Tensor t = as_tensor(workspace, m.rows());
  EXPECT_EQ(t.sizes(), at::IntArrayRef({3, 5}));
  t[2][4] = 42.0f;
  EXPECT_EQ(m.row(2)[4], 42.0f);
}

TEST(Rows, FillCopyAndSelect) {
  const Workspace workspace(at::kCPU);
  Matrix from = Matrix::random(4, 3, 2), to(4, 3), picked(3, 3);
  copy(workspace, from.rows(), to.rows());
  EXPECT_EQ(bits(to.values), bits(from.values));
  const std::int64_t rows[] = {3, 0, 3};
  select_rows(workspace, from.rows(), rows, picked.rows());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(std::equal(picked.row(i), picked.row(i) + 3, from.row(rows[i])));
  fill_zero(workspace, to.rows());
  EXPECT_EQ(bits(to.values), bits(std::vector<float>(12, 0.0f)));
}

TEST(Rows, RefuseOtherShapes) {
  const Workspace workspace(at::kCPU);
  Matrix a(2, 3), b(3, 2);
  const std::int64_t rows[] = {0};
  thrown(ErrorKind::kInvalidArgument, [&] { copy(workspace, a.rows(), b.rows()); });
  thrown(ErrorKind::kInvalidArgument, [&] { select_rows(workspace, a.rows(), rows, a.rows()); });
}

}  // namespace
}  // namespace mneme::ops
