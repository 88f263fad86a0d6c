#include "mneme/generate/auto_tokenizer.h"

#include <algorithm>

#include "mneme/base/error.h"
#include "mneme/text/chat_special_tokens.h"

namespace mneme {

TextTokenizer::TextTokenizer(Tokenizer tokenizer) : tokenizer_(std::move(tokenizer)) {
  const std::string* source = tokenizer_.chat_template();
  if (!source) return;
  try {
    template_ = std::make_shared<const ChatTemplate>(*source, "chat template");
  } catch (const Error& e) {
    template_error_ = e.what();  // a model with a broken template still continues plain text
  }
}

EncodedInputs TextTokenizer::encode(std::string_view text, EncodeOptions options) const {
  return encode(std::vector<std::string>{std::string(text)}, options);
}

EncodedInputs TextTokenizer::encode(const std::vector<std::string>& texts, EncodeOptions options) const {
  std::vector<std::vector<std::int64_t>> rows;
  std::int64_t longest = 0;
  for (const std::string& text : texts) {
    rows.push_back(tokenizer_.encode(text, options));
    longest = std::max<std::int64_t>(longest, std::ssize(rows.back()));
  }
  const SpecialToken* pad = tokenizer_.pad();
  const std::int64_t n = std::ssize(rows);
  EncodedInputs inputs{.input_ids = at::full({n, longest}, pad ? pad->id : 0, at::kLong),
                       .attention_mask = at::zeros({n, longest}, at::kLong)};
  for (std::int64_t i = 0; i < n; ++i) {
    const auto& row = rows[static_cast<std::size_t>(i)];
    const std::int64_t first = longest - std::ssize(row);
    std::copy(row.begin(), row.end(), inputs.input_ids.mutable_data_ptr<std::int64_t>() + i * longest + first);
    inputs.attention_mask.select(0, i).narrow(0, first, std::ssize(row)).fill_(1);
  }
  return inputs;
}

std::string TextTokenizer::decode(const at::Tensor& ids, DecodeOptions options) const {
  check(ids.dim() == 1 || (ids.dim() == 2 && ids.size(0) == 1), ErrorKind::kInvalidArgument,
        "decode takes the ids of one text, [T] or [1, T]; these have {} dimensions and {} ids", ids.dim(), ids.numel());
  const at::Tensor host = ids.to(at::kCPU, at::kLong).contiguous();
  return tokenizer_.decode({host.const_data_ptr<std::int64_t>(), static_cast<std::size_t>(host.numel())}, options);
}

std::string TextTokenizer::apply_chat_template(const std::vector<ChatMessage>& messages,
                                               ChatTemplateOptions options) const {
  Json json = Json::array();
  for (const ChatMessage& message : messages) json.push_back({{"role", message.role}, {"content", message.content}});
  return apply_chat_template(json, std::move(options));
}

std::string TextTokenizer::apply_chat_template(const Json& messages, ChatTemplateOptions options) const {
  check(template_error_.empty(), ErrorKind::kInvalidArgument, "{}", template_error_);
  check(template_ != nullptr, ErrorKind::kInvalidArgument, "this model has no chat template; give it plain text");
  set_special_tokens(options, tokenizer_);
  return template_->render(messages, options);
}

TextTokenizer AutoTokenizer::from_pretrained(const std::string& path) {
  return TextTokenizer(Tokenizer::from_pretrained(path));
}

}  // namespace mneme
