#pragma once

namespace mneme {

/// Characters that have a class today and had none, or another, in older Unicode. Parity: Hugging Face tokenizers 0.23
/// classify by crates that stand still: BERT's marks, punctuation and controls are those of Unicode 8, the marks that
/// StripAccents drops those of Unicode 9. Only classes that are asked for there are told apart; from what Unicode 15
/// has.
bool is_behind_unicode8(char32_t c) noexcept;
bool is_behind_unicode9(char32_t c) noexcept;

}  // namespace mneme
