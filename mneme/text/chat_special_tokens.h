#pragma once

#include "mneme/text/chat_template.h"
#include "mneme/text/tokenizer.h"

namespace mneme {

/// Gives a chat template the tokenizer's special tokens, as transformers does; those that are set already stay.
void set_special_tokens(ChatTemplateOptions& options, const Tokenizer& tokenizer);

}  // namespace mneme
