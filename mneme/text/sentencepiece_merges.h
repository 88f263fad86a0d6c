#pragma once

#include <span>
#include <string>

#include "mneme/text/bpe.h"

namespace mneme {

/// The merges that a SentencePiece vocabulary implies: every way to cut a token into two tokens, best score first.
/// tokens and scores are by id. Costs two lookups for every cut of every token.
/// Source: generate_merges() of transformers 5, ties included: longer left part, longer right part, then lower ids.
MergeTable sentencepiece_merges(const Vocabulary& vocabulary, std::span<const std::string> tokens,
                                std::span<const double> scores);

}  // namespace mneme
