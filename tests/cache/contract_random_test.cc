// Random programs over every cache kind, each step checked against the reference and, in attention, against attention
// computed anew from all its tokens.
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/checked_cache.h"
#include "tests/support/files.h"

namespace mneme {
namespace {

using testing::CacheKind;
using testing::CheckedCache;
using testing::Counts;

class Program {
 public:
  Program(const CacheKind& kind, unsigned seed) : random_(seed) {
    forks_.reserve(kMostForks);  // steps hold references
    CacheOptions options = kind.options(kLongest);
    if (kind.fixed) options.max_batch_size = kMostRows;
    forks_.emplace_back(kind, Cache(kind.shape(), options), seed);
  }

  void run(int n_steps) {
    for (step_ = 0; step_ < n_steps; ++step_) {
      SCOPED_TRACE(::testing::Message() << "step " << step_);
      CheckedCache& c = forks_[static_cast<std::size_t>(below(std::ssize(forks_)))];
      ASSERT_NO_FATAL_FAILURE(take_step(c));
      ASSERT_NO_FATAL_FAILURE(c.expect_same());
    }
    for (CheckedCache& c : forks_) ASSERT_NO_FATAL_FAILURE(c.expect_same());
  }

 private:
  static constexpr std::int64_t kLongest = 400, kMostRows = 4, kMostForks = 3;

  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n)); }

  void take_step(CheckedCache& c) {
    const std::int64_t n = c.n_sequences();
    if (n == 0) return c.append(Counts(static_cast<std::size_t>(1 + below(3)), 1 + below(70)));
    switch (below(18)) {
      case 0: return fork(c);
      case 1: return crop(c);
      case 2: return crop(c);
      case 3: return c.record();
      case 4: return reorder(c);
      case 5: return n <= 2 ? c.repeat(2) : c.select({below(n)});
      case 6: return below(4) ? c.crop(0) : c.reset();
      case 7: return poison(c);
      case 8: return update(c);
      case 9: return c.reload(folder_.path() + "/cache.safetensors");
      case 10: return join(c);
      default: return append(c);
    }
  }

  std::int64_t longest(const CheckedCache& c) const {
    std::int64_t most = 0;
    for (std::int64_t i = 0; i < c.n_sequences(); ++i) most = std::max(most, c.length(static_cast<std::size_t>(i)));
    return most;
  }

  void append(CheckedCache& c) {
    if (longest(c) + 70 > kLongest) return c.reset();
    Counts counts;
    const bool decode = below(2);
    for (std::int64_t i = 0; i < c.n_sequences(); ++i) counts.push_back(decode ? 1 : below(71));
    c.append(counts);
  }

  void update(CheckedCache& c) {
    for (std::int64_t i = 0; i < c.n_sequences(); ++i) {
      if (c.length(static_cast<std::size_t>(i)) != c.length(0)) return append(c);
    }
    if (longest(c) + 70 > kLongest) return c.reset();
    c.update(1 + below(70), c.n_sequences());
  }

  void crop(CheckedCache& c) {
    std::int64_t shortest = c.length(0);
    for (std::int64_t i = 0; i < c.n_sequences(); ++i)
      shortest = std::min(shortest, c.length(static_cast<std::size_t>(i)));
    const std::int64_t n = below(3) ? below(std::min<std::int64_t>(shortest, 10) + 1) : below(shortest + 1);
    if (c.can_crop(n)) return c.crop(n);
    testing::thrown(ErrorKind::kFailedPrecondition, [&] { c.cache().crop(-n); });
  }

  void poison(CheckedCache& c) {
    const std::int64_t n = 1 + below(70);
    const bool always = std::ranges::all_of(
        c.reference(), [](const testing::ReferenceLayer& l) { return l.recording || !l.visibility.limited(); });
    if (always && longest(c) + n <= kLongest) c.poison(n);
  }

  void reorder(CheckedCache& c) {
    Counts rows;
    for (std::int64_t i = 1 + below(kMostRows); i > 0; --i) rows.push_back(below(c.n_sequences()));
    c.select(rows);
  }

  /// The sequences of any of the forks, itself included.
  void join(CheckedCache& c) {
    const CheckedCache& other = forks_[static_cast<std::size_t>(below(std::ssize(forks_)))];
    if (c.n_sequences() + other.n_sequences() > kMostRows) return;
    if (c.reference().front().recording == other.reference().front().recording) return c.add(other);
    testing::thrown(ErrorKind::kFailedPrecondition, [&] { c.add(other); });
  }

  void fork(CheckedCache& c) {
    CheckedCache copy = c.copy(static_cast<unsigned>(random_()));
    if (std::ssize(forks_) < kMostForks) {
      forks_.push_back(std::move(copy));
    } else {
      std::swap(forks_[static_cast<std::size_t>(below(kMostForks))], copy);
    }
  }

  const testing::TempFolder folder_;
  std::mt19937 random_;
  std::vector<CheckedCache> forks_;
  int step_ = 0;
};

// Two thousand programs and more: short ones, for what goes wrong does so soon or at a border of blocks.
TEST(ContractRandom, ProgramsOverEveryKind) {
#ifdef NDEBUG
  constexpr int kSteps = 24;
#else
  constexpr int kSteps = 8;
#endif
  unsigned seed = 1;
  testing::for_each_kind([&](const CacheKind& kind) {
    for (int i = 0; i < 14; ++i) {
      Program(kind, ++seed).run(kSteps);
      if (::testing::Test::HasFatalFailure()) return;
    }
  });
  EXPECT_GE(seed, 2000u);
}

}  // namespace
}  // namespace mneme
