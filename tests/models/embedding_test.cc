#include "mneme/models/embedding.h"

#include <gtest/gtest.h>

#include "tests/support/matrix.h"
#include "tests/support/random_model.h"

namespace mneme {
namespace {

using testing::bits;
using testing::Matrix;

TEST(Embedding, GivesTheFilesRowsRoundedToTheDtype) {
  const testing::Checkpoint checkpoint = testing::random_checkpoint();
  const testing::TempFolder folder;
  checkpoint.write(folder);
  const std::vector<float>& table = checkpoint.tensors.at("model.embed_tokens.weight").values;
  for (const DType dtype : testing::kDTypes) {
    // The weights themselves are gone: the embedding keeps the file mapped.
    const Embedding embedding = [&] {
      const Weights weights = Weights::open(folder.path());
      return Embedding(weights, weights.get("model.embed_tokens.weight", {512, 64}), dtype);
    }();
    ops::Workspace workspace(at::kCPU);
    const std::int64_t ids[] = {511, 0, 7, 7};
    Matrix out(4, 64);
    embedding.forward(workspace, ids, out.rows());
    for (std::int64_t i = 0; i < 4; ++i) {
      for (std::int64_t j = 0; j < 64; ++j) {
        ASSERT_EQ(out.row(i)[j], testing::rounded(dtype, table[static_cast<std::size_t>(ids[i] * 64 + j)]));
      }
    }
    EXPECT_EQ(embedding.table().shape, (std::vector<std::int64_t>{512, 64}));
  }
}

TEST(Embedding, ManyRowsAreAsOne) {
  const testing::TempFolder folder;
  const Weights weights = Weights::open(testing::random_checkpoint().write(folder));
  const Embedding embedding(weights, weights.get("model.embed_tokens.weight", {512, 64}), DType::kFloat32);
  ops::Workspace workspace(at::kCPU);
  const std::vector<std::int64_t> ids = testing::random_ids(2000, 1);
  Matrix many(2000, 64), one(1, 64);
  embedding.forward(workspace, ids, many.rows());
  for (const std::int64_t i : {0, 999, 1999}) {
    embedding.forward(workspace, {&ids[static_cast<std::size_t>(i)], 1}, one.rows());
    EXPECT_EQ(bits(one.values), bits(std::vector<float>(many.row(i), many.row(i + 1))));
  }
  const std::int64_t before = workspace.n_allocations();
  embedding.forward(workspace, ids, many.rows());
  EXPECT_EQ(workspace.n_allocations(), before);
}

}  // namespace
}  // namespace mneme
