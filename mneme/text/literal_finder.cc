#include "mneme/text/literal_finder.h"

#include <algorithm>

namespace mneme {

void LiteralFinder::add(std::string_view literal, std::int32_t value) {
  begins_[static_cast<unsigned char>(literal.front())] = true;
  std::size_t at = 0;
  for (const char c : literal) {
    const auto byte = static_cast<unsigned char>(c);
    if (const Node* next = child(nodes_[at], byte)) {
      at = static_cast<std::size_t>(next - nodes_.data());
    } else {
      nodes_[at].children.emplace_back(byte, static_cast<std::uint32_t>(nodes_.size()));
      at = nodes_.size();
      nodes_.emplace_back();
    }
  }
  nodes_[at].value = value;
}

std::optional<LiteralFinder::Match> LiteralFinder::find(std::string_view text, std::size_t start) const {
  for (std::size_t begin = start; begin < text.size(); ++begin) {
    if (!begins_[static_cast<unsigned char>(text[begin])]) continue;
    std::optional<Match> longest;
    const Node* node = &nodes_[0];
    for (std::size_t at = begin; at < text.size(); ++at) {
      node = child(*node, static_cast<unsigned char>(text[at]));
      if (!node) break;
      if (node->value >= 0) longest = {begin, at + 1, node->value};
    }
    if (longest) return longest;
  }
  return std::nullopt;
}

const LiteralFinder::Node* LiteralFinder::child(const Node& node, unsigned char byte) const {
  const auto it =
      std::find_if(node.children.begin(), node.children.end(), [byte](const auto& c) { return c.first == byte; });
  return it == node.children.end() ? nullptr : &nodes_[it->second];
}

}  // namespace mneme
