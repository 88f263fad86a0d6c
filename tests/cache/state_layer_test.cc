#include "mneme/cache/state_layer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <random>

#include "tests/support/matrix.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Matrix;
using testing::thrown;

constexpr std::int64_t kWidth = 3, kWindow = 2;

/// A window of the last two tokens and a recurrence h <- 0.9 h + first element, both told exactly by a sequence's ids.
/// Token id x has the inputs x, 2 x, 3 x; its output is h + the sum of the window.
class Toy {
 public:
  Toy() {
    const auto memory = std::make_shared<DeviceTier>(at::kCPU);
    const auto budget = std::make_shared<ByteBudget>(0);
    states = std::make_shared<BlockPool>(StateLayer::state_bytes(kShape), memory, budget);
    inputs = std::make_shared<BlockPool>(StateLayer::input_bytes(kShape), memory, budget);
  }

  StateLayer layer(std::int64_t n_sequences = 1) const {
    StateLayer result(kShape, at::kCPU, states, inputs);
    result.start(n_sequences);
    return result;
  }

  using Ids = std::vector<int>;

  /// Appends ids to each sequence; gives the outputs.
  std::vector<float> append_to_each(StateLayer& layer, const std::vector<Ids>& ids) {
    std::vector<std::int64_t> row_starts{0};
    for (const Ids& row : ids) row_starts.push_back(row_starts.back() + std::ssize(row));
    Matrix x(row_starts.back(), kWidth + 1), y(row_starts.back(), 1);  // a column more than the inputs
    std::int64_t r = 0;
    for (const Ids& row : ids) {
      for (const int id : row) {
        for (int c = 0; c < kWidth; ++c) x.row(r)[c] = static_cast<float>(id * (c + 1));
        ++r;
      }
    }
    layer.advance(workspace, row_starts, x.rows(), y.rows(),
                  [&](std::span<const ops::StateRun> runs, const ops::Rows& rows, const ops::Rows& out) {
                    run(layer, runs, rows, out);
                  });
    return y.values;
  }
  std::vector<float> append(StateLayer& layer, const Ids& ids) { return append_to_each(layer, {ids}); }

  /// What a sequence of these ids holds: window and recurrence, as computed one token after the other.
  static std::pair<std::vector<float>, float> exact(const Ids& ids) {
    std::vector<float> window(kWindow * kWidth, 0.0f);
    float h = 0;
    for (const int id : ids) {
      window.erase(window.begin(), window.begin() + kWidth);
      for (int c = 0; c < kWidth; ++c) window.push_back(static_cast<float>(id * (c + 1)));
      h = 0.9f * h + static_cast<float>(id);
    }
    return {window, h};
  }

  /// Feeds one more token, so that a crop is replayed, and compares states and output with those of the ids.
  void expect_continues(StateLayer layer, const std::vector<Ids>& ids) {
    std::vector<Ids> more(ids.size(), Ids{7});
    const std::vector<float> out = append_to_each(layer, more);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      Ids all = ids[i];
      all.push_back(7);
      const auto [window, h] = exact(all);
      const auto sequence = static_cast<std::int64_t>(i);
      ASSERT_EQ(layer.length(sequence), std::ssize(all));
      ASSERT_TRUE(at::equal(layer.state(sequence, 0), testing::tensor_of(window))) << "sequence " << i;
      ASSERT_EQ(layer.state(sequence, 1).item<float>(), h) << "sequence " << i;
      ASSERT_EQ(out[i], h + sum(window)) << "sequence " << i;
    }
  }

  static inline const StateShape kShape{.sizes = {kWindow * kWidth, 1}, .input_width = kWidth};
  std::shared_ptr<BlockPool> states, inputs;
  ops::Workspace workspace{at::kCPU};
  int n_replayed = 0;  ///< rows taken through the recurrence without output

 private:
  static float sum(const std::vector<float>& window) {
    float total = 0;
    for (const float x : window) total += x;
    return total;
  }

  void run(const StateLayer& layer, std::span<const ops::StateRun> runs, const ops::Rows& rows, const ops::Rows& out) {
    if (!out.data) n_replayed += static_cast<int>(rows.n);
    for (const ops::StateRun& run : runs) {
      const float* before = run.before;
      std::vector<float> window(before, before + kWindow * kWidth);
      float h = before[layer.offset(1)];
      const ops::StateMark* mark = run.marks.data();
      for (std::int64_t t = 0; t < run.n_rows; ++t) {
        const float* x = rows.row(run.first_row + t);
        window.erase(window.begin(), window.begin() + kWidth);
        window.insert(window.end(), x, x + kWidth);
        h = 0.9f * h + x[0];
        if (out.data) *out.row(run.first_row + t) = h + sum(window);
        if (mark->n_rows != t + 1) continue;
        std::copy(window.begin(), window.end(), mark->states);
        mark->states[layer.offset(1)] = h;
        ++mark;
      }
    }
  }
};

Toy::Ids some_ids(std::int64_t n, unsigned seed = 1) {
  std::mt19937 random(seed);
  Toy::Ids ids;
  for (std::int64_t i = 0; i < n; ++i) ids.push_back(static_cast<int>(random() % 100));
  return ids;
}

Toy::Ids first(const Toy::Ids& ids, std::int64_t n) { return {ids.begin(), ids.begin() + n}; }

TEST(StateLayer, HoldsOneBlockASequenceAtAnyLength) {
  Toy toy;
  StateLayer layer = toy.layer(2);
  Toy::Ids ids;
  for (int n = 0; n < 300; ++n) {
    ids.push_back(n % 90);
    toy.append_to_each(layer, {{n % 90}, {}});
    ASSERT_EQ(toy.states->n_in_use(), 1);
  }
  EXPECT_EQ(toy.inputs->n_in_use(), 0);
  EXPECT_EQ(layer.length(0), 300);
  EXPECT_EQ(layer.length(1), 0);
  toy.expect_continues(layer, {ids, {}});
}

TEST(StateLayer, StatesLieOnBordersOf64Bytes) {
  const StateLayer layer({.sizes = {1, 0, 17}, .input_width = 1}, at::kCPU, nullptr, nullptr);
  EXPECT_EQ(layer.offset(0), 0);
  EXPECT_EQ(layer.offset(1), 16);
  EXPECT_EQ(layer.offset(2), 16);
  EXPECT_EQ(StateLayer::state_bytes(layer.shape()), (16 + 32) * 4);
  EXPECT_EQ(StateLayer::input_bytes(layer.shape()), 64 * 4);
}

TEST(StateLayer, AForkIsFreeUntilASideMovesOn) {
  Toy toy;
  StateLayer layer = toy.layer();
  const Toy::Ids ids = some_ids(70);
  toy.append(layer, ids);
  StateLayer fork = layer;
  EXPECT_EQ(toy.states->n_in_use(), 1);
  toy.append(fork, {1, 2, 3});
  EXPECT_EQ(toy.states->n_in_use(), 2);
  toy.expect_continues(layer, {ids});
  Toy::Ids forked = ids;
  forked.insert(forked.end(), {1, 2, 3});
  toy.expect_continues(fork, {forked});
}

TEST(StateLayer, SelectsSequences) {
  Toy toy;
  StateLayer layer = toy.layer(3);
  const std::vector<Toy::Ids> ids = {some_ids(5, 1), some_ids(70, 2), {}};
  toy.append_to_each(layer, ids);
  const std::int64_t rows[] = {1, 1, 2, 0};
  layer.select(rows);
  EXPECT_EQ(toy.states->n_in_use(), 2);
  toy.expect_continues(layer, {ids[1], ids[1], ids[2], ids[0]});
}

TEST(StateLayer, ResetIsAsNew) {
  Toy toy;
  StateLayer layer = toy.layer(2);
  layer.activate_past_recording();
  toy.append_to_each(layer, {some_ids(70), some_ids(3)});
  layer.reset();
  EXPECT_EQ(layer.n_sequences(), 0);
  EXPECT_FALSE(layer.recording());
  EXPECT_EQ(toy.states->n_in_use() + toy.inputs->n_in_use(), 0);
  layer.start(1);
  toy.append(layer, {4, 5});
  toy.expect_continues(layer, {{4, 5}});
}

// Blocks come with what others left in them.
TEST(StateLayer, FreedStatesAreNeverRead) {
  Toy toy;
  for (int round = 0; round < 3; ++round) {
    StateLayer layer = toy.layer();
    layer.activate_past_recording();
    toy.append(layer, some_ids(200, static_cast<unsigned>(round)));
    layer.each_block(
        [](const BlockRef& block) { std::fill_n(reinterpret_cast<float*>(block.data()), 8, testing::kNan); });
    layer.reset();
    StateLayer next = toy.layer();
    toy.append(next, {3});
    toy.expect_continues(next, {{3}});
  }
}

// To every recorded token, from a past that begins anywhere, filled in one piece or token by token.
TEST(StateLayer, CropsToEveryRecordedToken) {
  const Toy::Ids ids = some_ids(150);
  for (const std::int64_t before : {0, 1, 63, 64, 70}) {
    for (const std::int64_t piece : {1, 7, 64, 150}) {
      Toy toy;
      StateLayer layer = toy.layer();
      if (before) toy.append(layer, first(ids, before));
      layer.activate_past_recording();
      for (std::int64_t done = before; done < 150; done += piece) {
        toy.append(layer, {ids.begin() + done, ids.begin() + std::min<std::int64_t>(done + piece, 150)});
      }
      for (std::int64_t rest = before; rest <= 150; ++rest) {
        StateLayer cropped = layer;
        cropped.check_crop(150 - rest);
        cropped.crop(150 - rest);
        ASSERT_EQ(cropped.length(0), rest);
        ASSERT_NO_FATAL_FAILURE(toy.expect_continues(cropped, {first(ids, rest)})) << before << ' ' << rest;
      }
      toy.expect_continues(layer, {ids});  // the copies took nothing from it
    }
  }
}

TEST(StateLayer, ReplaysAtMost64Tokens) {
  Toy toy;
  StateLayer layer = toy.layer();
  layer.activate_past_recording();
  const Toy::Ids ids = some_ids(1000);
  toy.append(layer, ids);
  layer.crop(1000 - 639);
  toy.n_replayed = 0;
  toy.append(layer, {1});
  EXPECT_EQ(toy.n_replayed, 63);
  layer.crop(1);
  toy.append(layer, {1});
  EXPECT_EQ(toy.n_replayed, 63) << "the states of where the past begins are kept";
}

TEST(StateLayer, CropNeedsARecordedPast) {
  Toy toy;
  StateLayer layer = toy.layer();
  toy.append(layer, some_ids(20));
  layer.check_crop(0);
  EXPECT_THAT(thrown(ErrorKind::kFailedPrecondition, [&] { layer.check_crop(1); }),
              AllOf(HasSubstr("activate_past_recording()"), HasSubstr("of 20 tokens"), HasSubstr("take back 1")));
  thrown(ErrorKind::kFailedPrecondition, [&] { layer.check_crop(20); });
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument, [&] { layer.check_crop(21); }),
              AllOf(HasSubstr("21"), HasSubstr("20")));
  layer.activate_past_recording();
  toy.append(layer, {1, 2, 3});
  layer.check_crop(3);
  EXPECT_THAT(thrown(ErrorKind::kFailedPrecondition, [&] { layer.check_crop(4); }), HasSubstr("the last 3 are"));
  toy.expect_continues(layer, {[] {
                         Toy::Ids all = some_ids(20);
                         all.insert(all.end(), {1, 2, 3});
                         return all;
                       }()});
}

TEST(StateLayer, ACropFreesThePastAndRecordingGoesOn) {
  Toy toy;
  StateLayer layer = toy.layer();
  layer.activate_past_recording();
  Toy::Ids ids = some_ids(300);
  toy.append(layer, ids);
  EXPECT_EQ(toy.inputs->n_in_use(), 5);
  EXPECT_EQ(toy.states->n_in_use(), 4 + 1);  // after 64, 128, 192, 256 and 300 tokens
  layer.crop(0);
  EXPECT_EQ(toy.inputs->n_in_use(), 0);
  EXPECT_EQ(toy.states->n_in_use(), 1);
  thrown(ErrorKind::kFailedPrecondition, [&] { layer.check_crop(1); });
  for (int round = 0; round < 30; ++round) {  // as drafts come and go
    toy.append(layer, some_ids(4, static_cast<unsigned>(round)));
    layer.check_crop(4);
    layer.crop(3);
    ids.push_back(some_ids(4, static_cast<unsigned>(round))[0]);
    ASSERT_EQ(layer.length(0), std::ssize(ids));
    ASSERT_LE(toy.states->n_in_use(), 3);
    ASSERT_LE(toy.inputs->n_in_use(), 2);
    if (round % 5 == 4) layer.crop(0);  // before anything is replayed
    if (round % 10 == 9) toy.expect_continues(layer, {ids});
  }
}

TEST(StateLayer, BlocksNeededIsEnough) {
  for (const bool recording : {false, true}) {
    for (const std::int64_t before : {0, 1, 63, 64, 100}) {
      for (const std::int64_t cropped : {0, 1, 37}) {
        for (const std::int64_t n : {1, 27, 28, 63, 64, 65, 200}) {
          Toy toy;
          StateLayer layer = toy.layer();
          if (recording) layer.activate_past_recording();
          if (before) toy.append(layer, some_ids(before));
          if (recording && cropped <= before) layer.crop(cropped);
          const StateLayer fork = layer;  // everything is shared now
          const std::int64_t counts[] = {n};
          const StateLayer::Blocks needed = layer.blocks_needed(counts);
          toy.states->reserve(needed.states);
          toy.inputs->reserve(needed.inputs);
          const std::int64_t states = toy.states->capacity(), inputs = toy.inputs->capacity();
          toy.append(layer, some_ids(n));
          ASSERT_EQ(toy.states->capacity(), states) << before << " - " << cropped << " + " << n;
          ASSERT_EQ(toy.inputs->capacity(), inputs) << before << " - " << cropped << " + " << n;
        }
      }
    }
  }
}

TEST(StateLayer, ShapesAndRowsThatCannotBe) {
  const auto refuse = [](const StateShape& shape) {
    return thrown(ErrorKind::kInvalidArgument, [&] { StateLayer::state_bytes(shape); });
  };
  refuse({.sizes = {}, .input_width = 3});
  refuse({.sizes = {0, 0}, .input_width = 3});
  refuse({.sizes = {-1}, .input_width = 3});
  refuse({.sizes = {4}, .input_width = 0});
  EXPECT_THAT(refuse({.sizes = {16, INT64_MAX}, .input_width = 3}), HasSubstr("behind others of 16"));
  refuse({.sizes = {16}, .input_width = INT64_MAX});

  Toy toy;
  StateLayer layer = toy.layer(2);
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument, [&] { toy.append(layer, Toy::Ids{1}); }), HasSubstr("1 sequences"));
  Matrix narrow(2, kWidth - 1);
  const std::int64_t row_starts[] = {0, 1, 2};
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument,
                     [&] { layer.advance(toy.workspace, row_starts, narrow.rows(), {}, [](auto&&...) {}); }),
              HasSubstr("rows of 2"));
}

// Appends, crops, forks and reorders of a batch, each sequence held against the ids that it is made of.
TEST(StateLayer, RandomProgramsAgainstTheIds) {
  struct Branch {
    StateLayer layer;
    std::vector<Toy::Ids> ids;
    std::int64_t croppable = -1;  // tokens appended since recording began or the last crop; not recording: -1
  };
  Toy toy;
  for (unsigned seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(n)); };
    std::vector<Branch> branches{{toy.layer(2), {{}, {}}}};
    for (int step = 0; step < 40; ++step) {
      Branch& b = branches[static_cast<std::size_t>(below(std::ssize(branches)))];
      const std::int64_t n_sequences = std::ssize(b.ids);
      switch (below(8)) {
        case 0:
          b.layer.activate_past_recording();
          b.croppable = std::max<std::int64_t>(b.croppable, 0);
          break;
        case 1: {
          const std::int64_t n = b.croppable > 0 ? below(b.croppable + 1) : 0;
          b.layer.check_crop(n);
          b.layer.crop(n);
          for (Toy::Ids& ids : b.ids) ids.resize(ids.size() - static_cast<std::size_t>(n));
          if (b.croppable > 0) b.croppable = 0;
          break;
        }
        case 2:
          if (branches.size() < 3) {
            branches.reserve(3);
            branches.push_back(branches.front());
          }
          break;
        case 3: {
          std::vector<std::int64_t> rows;
          std::vector<Toy::Ids> ids;
          for (std::int64_t i = 0; i <= below(3); ++i) rows.push_back(below(n_sequences));
          for (const std::int64_t row : rows) ids.push_back(b.ids[static_cast<std::size_t>(row)]);
          b.layer.select(rows);
          b.ids = ids;
          break;
        }
        case 4: ASSERT_NO_FATAL_FAILURE(toy.expect_continues(b.layer, b.ids)); break;
        default: {
          const std::int64_t n = below(3) ? 1 + below(4) : 1 + below(130);
          std::vector<Toy::Ids> more;
          for (Toy::Ids& ids : b.ids) {
            more.push_back(some_ids(n, static_cast<unsigned>(random())));
            ids.insert(ids.end(), more.back().begin(), more.back().end());
          }
          toy.append_to_each(b.layer, more);
          if (b.croppable >= 0) b.croppable += n;
        }
      }
    }
    for (Branch& b : branches) ASSERT_NO_FATAL_FAILURE(toy.expect_continues(b.layer, b.ids));
  }
  EXPECT_EQ(toy.states->n_in_use() + toy.inputs->n_in_use(), 0);
}

}  // namespace
}  // namespace mneme
