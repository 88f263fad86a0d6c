#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "mneme/base/json.h"

namespace mneme {

/// What a chat template sees beside the messages. An empty token is left undefined, as a tokenizer without it has it.
struct ChatTemplateOptions {
  bool add_generation_prompt = false;   ///< end with the header of a new assistant message
  bool continue_final_message = false;  ///< end with the last message's content, so that the model goes on with it
  Json tools = nullptr;                 ///< a list of JSON schemas, or null
  Json documents = nullptr;             ///< a list of objects with "title" and "text", or null
  std::string bos_token = {};
  std::string eos_token = {};
  std::string unk_token = {};
  std::string sep_token = {};
  std::string pad_token = {};
  std::string cls_token = {};
  std::string mask_token = {};
  Json extra = nullptr;  ///< an object of further variables, e.g. {"enable_thinking": false}; wins over the tokens
  std::optional<std::tm> now = {};  ///< what strftime_now shows; the local time where it is not set
};

/// A model's chat template, in the Jinja2 that transformers gives such templates: trim_blocks, lstrip_blocks, loop
/// controls, the generation tag, raise_exception, strftime_now, and an immutable sandbox.
///
/// Templates are not trusted: rendering is bounded in steps (10 million), in memory (512 MiB built, 64 MiB of output)
/// and in depth, and reaches no file, no other template and nothing else of the process.
///
/// Left out, with an Error that says so: include, import, extends, autoescape, recursive loops, the filters random,
/// urlize, wordwrap and xmlattr, integers of more than 64 bits. `safe` and `escape` give plain strings.
class ChatTemplate {
 public:
  /// Parses `source`; `name` is what errors call it. Throws Error(kCorruptData) with the line of a syntax error,
  /// Error(kUnsupported) for a tag that is left out.
  ChatTemplate(std::string_view source, std::string_view name);
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  /// Renders a list of messages, each an object, mostly with "role" and "content". Safe to call from several threads.
  ///
  /// Throws Error(kInvalidArgument) where the template refuses the messages (with its own words), fails on them or
  /// does not end, where add_generation_prompt and continue_final_message are both set, and where there is nothing to
  /// continue; Error(kOutOfMemory) past the limits on memory; Error(kUnsupported) for what is left out.
  std::string render(const Json& messages, const ChatTemplateOptions& options = {}) const;

 private:
  struct Parsed;
  std::unique_ptr<const Parsed> parsed_;
};

}  // namespace mneme
