#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace mneme {

/// A half-open range of bytes.
struct ByteRange {
  std::size_t begin;
  std::size_t end;
};

/// Members of PCRE2 classes: White_Space, and the \w of Rust, which Hugging Face's own code uses beside Oniguruma's.
inline constexpr const char* kUnicodeSpace =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
inline constexpr const char* kRustWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200c}\x{200d})";

/// A compiled regular expression over valid UTF-8, with Unicode classes; constant and shared by threads freely.
/// Runs on PCRE2 with its JIT. Every match is limited in steps and memory, so no pattern can hang or blow up.
class Regex {
 public:
  /// A pattern in the syntax of Oniguruma, the engine that tokenizer.json files are written for (see oniguruma.h).
  /// Throws Error(kUnsupported) with the pattern and what is wrong with it.
  static Regex from_oniguruma(const std::string& pattern);

  /// A pattern in PCRE2's own syntax.
  explicit Regex(std::string pattern);

  /// Appends all matches from left to right to `matches`. An empty match at the end of the previous match does not
  /// count. Throws Error(kInvalidArgument) if a match takes more steps than the limit.
  void find_all(std::string_view text, std::vector<ByteRange>& matches) const;

 private:
  std::string pattern_;
  std::shared_ptr<const void> code_;
};

/// The beginning of a pattern, as errors show it.
inline std::string_view regex_excerpt(std::string_view pattern) { return pattern.substr(0, 100); }

/// Whether PCRE2 accepts the pattern.
bool is_valid_regex(const std::string& pattern);

/// Appends the places of a literal text, from left to right, without overlap. An empty literal is found nowhere.
void find_all_literal(std::string_view text, std::string_view literal, std::vector<ByteRange>& matches);

}  // namespace mneme
