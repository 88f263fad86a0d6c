#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mneme/text/tokenizer.h"

namespace mneme {

/// The bytes that each id adds to a text behind others, by id: byte-level and byte-fallback tokens as the bytes that
/// they stand for, metaspaces as spaces. Empty for special tokens and for ids without a token.
std::vector<std::string> token_bytes(const Tokenizer& tokenizer);

/// Tokens by their bytes: a tree in one array, so that one pass over it finds all that an automaton lets through, and
/// leaves out what begins with a byte that it does not. Tokens without bytes are not in it.
class TokenTrie {
 public:
  /// By id.
  explicit TokenTrie(const std::vector<std::string>& tokens);

  /// Calls emit(id) for each token whose bytes lead from `start` through states that are not `dead`.
  template <class State, class Next, class Emit>
  void for_each_match(State start, State dead, Next&& next, Emit&& emit) const {
    std::vector<State> states(depth_ + 1, start);
    for (std::size_t i = 0; i < nodes_.size();) {
      const Node& node = nodes_[i];
      const State state = next(states[node.depth], node.byte);
      if (state == dead) {
        i = node.end;
        continue;
      }
      states[node.depth + 1] = state;
      for (std::uint32_t k = node.first_id; k < node.end_id; ++k) emit(ids_[k]);
      ++i;
    }
  }

 private:
  struct Node {
    std::uint32_t end;               ///< the first node that is not below this one
    std::uint32_t first_id, end_id;  ///< tokens that end here
    std::uint32_t depth;             ///< bytes before this one
    std::uint8_t byte;
  };

  std::vector<Node> nodes_;
  std::vector<std::int64_t> ids_;
  std::size_t depth_ = 0;
};

}  // namespace mneme
