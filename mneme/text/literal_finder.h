#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace mneme {

/// Finds the leftmost, then longest of many literals: a trie over bytes.
class LiteralFinder {
 public:
  struct Match {
    std::size_t begin;
    std::size_t end;
    std::int32_t value;
  };

  /// Adds a non-empty literal; one that is there already gets the new value. `value` is not negative.
  void add(std::string_view literal, std::int32_t value);

  /// The first match at or after `start`. Costs the longest common prefix at each place that is passed.
  std::optional<Match> find(std::string_view text, std::size_t start) const;

 private:
  struct Node {
    std::vector<std::pair<unsigned char, std::uint32_t>> children;
    std::int32_t value = -1;
  };
  const Node* child(const Node& node, unsigned char byte) const;

  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::vector<bool> begins_ = std::vector<bool>(256);  ///< whether a literal begins with the byte
};

}  // namespace mneme
