#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mneme {

/// SentencePiece's table of replacements, as tokenizer.json keeps it: a double-array trie of what is replaced, and the
/// texts that replace it. Nothing in it is trusted.
class PrecompiledMap {
 public:
  /// `base64`: the size of the trie in bytes (32 bits), the trie, texts that end with a zero byte.
  /// Throws Error(kCorruptData) naming the file if it is no base64, the trie is larger than the whole, or the texts
  /// are not UTF-8.
  PrecompiledMap(std::string_view base64, std::string_view file);

  /// Appends what a grapheme becomes: as a whole, if it has less than six bytes and the table knows a key that it
  /// begins with; otherwise character by character. Ends with the first that makes `out` longer than `limit`, and is
  /// false then.
  bool append(std::string_view grapheme, std::size_t limit, std::string& out) const;

 private:
  std::optional<std::string_view> replacement(std::string_view text) const;

  std::vector<std::uint32_t> trie_;
  std::string texts_;
};

}  // namespace mneme
