#include "mneme/text/chat_special_tokens.h"

namespace mneme {

void set_special_tokens(ChatTemplateOptions& options, const Tokenizer& tokenizer) {
  const auto set = [&](std::string& token, std::string_view role) {
    const SpecialToken* special = tokenizer.special_token(role);
    if (token.empty() && special) token = special->text;
  };
  set(options.bos_token, "bos_token");
  set(options.eos_token, "eos_token");
  set(options.unk_token, "unk_token");
  set(options.sep_token, "sep_token");
  set(options.pad_token, "pad_token");
  set(options.cls_token, "cls_token");
  set(options.mask_token, "mask_token");
}

}  // namespace mneme
