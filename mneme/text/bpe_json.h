#pragma once

#include <memory>
#include <string_view>

#include "mneme/base/json.h"
#include "mneme/text/bpe.h"

namespace mneme {

/// Builds the "model" of a tokenizer.json whose type is BPE. Merges are strings "a b" or pairs ["a", "b"].
/// Throws Error(kCorruptData) for missing or mistyped keys and for merges that name unknown tokens, Error(kUnsupported)
/// if the model asks for dropout.
std::unique_ptr<Bpe> make_bpe(const Json& model, std::string_view name);

/// A vocabulary of an object {text: id}. Throws Error(kCorruptData) naming a token whose id is none.
Vocabulary read_vocabulary(const Json& tokens, std::string_view name);

/// Cuts a merge written as "a b". Throws Error(kCorruptData) unless there is exactly one space.
std::pair<std::string_view, std::string_view> split_merge(std::string_view merge, std::string_view name);

/// Adds the merge of two tokens into their concatenation, without the right one's first `n_prefix_bytes`.
/// Throws Error(kCorruptData) naming the token that the vocabulary lacks.
void add_merge(const Vocabulary& vocabulary, std::string_view left, std::string_view right, std::size_t n_prefix_bytes,
               MergeTable& merges, std::string_view name);

}  // namespace mneme
