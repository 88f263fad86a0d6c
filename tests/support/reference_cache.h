#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "mneme/cache/shape.h"
#include "tests/support/dense_attention.h"

namespace mneme::testing {

/// One token of one layer: its keys and values of all heads, already rounded to the cache's dtype.
struct Token {
  std::vector<float> keys, values;
};

/// What a cache is to be: every token of every sequence in a vector, nothing ever let go. `held_from` follows the crop
/// table of the interface: the first token that a layer of limited retention has not been told to forget.
struct ReferenceLayer {
  struct Sequence {
    std::vector<Token> tokens;
    std::int64_t held_from = 0;
    std::int64_t length() const { return std::ssize(tokens); }
  };
  kernels::Visibility visibility;
  std::vector<Sequence> sequences;
  bool recording = false;

  void append(std::size_t sequence, const Token& token) {
    sequences[sequence].tokens.push_back(token);
    forget();
  }
  void forget() {
    if (recording) return;
    for (Sequence& s : sequences) s.held_from = std::max(s.held_from, visibility.first_visible(s.length()));
  }
  bool can_crop(std::int64_t n) const {
    return std::ranges::all_of(sequences, [&](const Sequence& s) {
      if (n > s.length()) return false;
      if (n == 0 || !visibility.limited()) return true;
      if (!recording) return s.length() < std::max(visibility.window, visibility.chunk);
      const std::int64_t rest = s.length() - n, needed = visibility.first_visible(rest);
      return needed >= rest || needed >= s.held_from;
    });
  }
  void crop(std::int64_t n) {
    for (Sequence& s : sequences) {
      s.tokens.resize(static_cast<std::size_t>(s.length() - n));
      s.held_from = std::max(std::min(s.held_from, s.length()), visibility.first_visible(s.length()));
    }
  }
  void select(const std::vector<std::int64_t>& rows) {
    std::vector<Sequence> selected;
    for (const std::int64_t row : rows) selected.push_back(sequences[static_cast<std::size_t>(row)]);
    sequences = std::move(selected);
  }
  /// Tokens that the queries at [first, last) see together.
  std::vector<std::int64_t> seen(std::int64_t first, std::int64_t last) const {
    std::vector<std::int64_t> tokens;
    for (std::int64_t j = 0; j < last; ++j) {
      bool any = false;
      for (std::int64_t i = first; i < last; ++i) any = any || sees(visibility, i, j);
      if (any) tokens.push_back(j);
    }
    return tokens;
  }
};

}  // namespace mneme::testing
