#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mneme {

/// Character classes as Rust's `char` and the Hugging Face tokenizers see them. Unicode data: libutf8proc, and
/// unicode_ages.h for classes whose data are older there.
bool is_whitespace(char32_t c) noexcept;         ///< White_Space
bool is_numeric(char32_t c) noexcept;            ///< Nd, Nl, No
bool is_punctuation(char32_t c) noexcept;        ///< P* of Unicode 8, and the ASCII symbols
bool is_mark(char32_t c) noexcept;               ///< Mn, Mc, Me of Unicode 9
bool is_nonspacing_mark(char32_t c) noexcept;    ///< Mn of Unicode 8
bool is_invisible_other(char32_t c) noexcept;    ///< Cc, Cf, Co of Unicode 8
bool is_chinese_character(char32_t c) noexcept;  ///< BERT's blocks of CJK ideographs

/// Lowercases character by character (full mappings, no context such as a final sigma). Valid UTF-8 in and out.
std::string to_lowercase(std::string_view text);

/// The extended grapheme clusters of valid UTF-8, in order.
std::vector<std::string_view> graphemes(std::string_view text);

enum class NormalizationForm { kNfc, kNfd, kNfkc, kNfkd };

/// Unicode normalization of valid UTF-8; ASCII text costs one scan. Throws Error(kOutOfMemory).
std::string normalize(std::string_view text, NormalizationForm form);

}  // namespace mneme
