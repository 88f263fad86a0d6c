#include "mneme/text/sentencepiece_merges.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "mneme/text/utf8.h"

namespace mneme {

MergeTable sentencepiece_merges(const Vocabulary& vocabulary, std::span<const std::string> tokens,
                                std::span<const double> scores) {
  struct Merge {
    double score;
    std::uint32_t left_length, right_length;  // characters
    TokenId merged, left, right;
  };
  std::vector<Merge> found;
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    const std::string_view token = tokens[id];
    const auto merged = static_cast<TokenId>(id);
    if (vocabulary.find(token) != merged) continue;  // a later token has the same text
    std::uint32_t length = 0;
    for_each_code_point(token, [&](char32_t, std::size_t, std::size_t) { ++length; });
    std::uint32_t left_length = 0;
    for_each_code_point(token, [&](char32_t, std::size_t begin, std::size_t) {
      if (begin > 0) {
        const TokenId left = vocabulary.find(token.substr(0, begin));
        const TokenId right = left == kNoToken ? kNoToken : vocabulary.find(token.substr(begin));
        if (right != kNoToken) found.push_back({scores[id], left_length, length - left_length, merged, left, right});
      }
      ++left_length;
    });
  }
  const auto better = [](const Merge& a, const Merge& b) {
    return std::tie(b.score, b.left_length, b.right_length, a.merged, a.left, a.right) <
           std::tie(a.score, a.left_length, a.right_length, b.merged, b.left, b.right);
  };
  std::sort(found.begin(), found.end(), better);
  MergeTable merges;
  merges.reserve(found.size());
  for (const Merge& merge : found) merges.add(merge.left, merge.right, merge.merged);
  return merges;
}

}  // namespace mneme
