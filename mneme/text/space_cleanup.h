#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mneme {

/// Removes the spaces before . ? ! , and English contractions, as transformers' clean_up_tokenization does.
std::string clean_up_spaces(std::string text);

/// The same as the WordPiece decoder does it, which also shortens " do not" to " don't".
std::string clean_up_word_piece(std::string text);

/// How much of a text clean_up_spaces treats alike whatever may follow.
std::size_t certain_before_cleanup(std::string_view text) noexcept;

}  // namespace mneme
