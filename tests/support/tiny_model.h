#pragma once

#include <filesystem>
#include <string>

#include "mneme/base/json.h"
#include "tests/support/files.h"
#include "tests/support/places.h"

namespace mneme::testing {

/// A chat template of the common form, and an answer to two user turns in a row.
inline constexpr const char* kTinyTemplate =
    "{% for message in messages %}{% if message.role == 'tool' %}{{ raise_exception('no tools here') }}{% endif %}"
    "{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/// The folder of a model with random weights (512 tokens of vocabulary, 512 positions) and a tokenizer of 503 tokens:
/// what a test needs that works on texts. It lives as long as this object.
class TinyModel {
 public:
  /// n_texts: tokens that are no special ones, 256 (bytes alone) to 500.
  explicit TinyModel(int n_texts = 500) {
    const std::filesystem::path golden = test_data("");
    for (const char* name : {"config.json", "generation_config.json", "model.safetensors"}) {
      std::filesystem::copy(golden / "models" / "llama" / name, path(name));
    }
    Json tokenizer = read_json_file((golden / "tokenizers" / "smollm2.json").string()).at("tokenizer");
    Json& model = tokenizer["model"];
    Json vocabulary = Json::object(), merges = Json::array();
    for (const auto& [token, id] : model["vocab"].items()) {
      if (id < n_texts) vocabulary[token] = id;
    }
    // The first 256 ids are bytes; then each merge makes the next.
    for (int i = 0; i < n_texts - 256; ++i) merges.push_back(model["merges"][static_cast<std::size_t>(i)]);
    model["vocab"] = vocabulary;
    model["merges"] = merges;
    for (std::size_t i = 0; i < 3; ++i) tokenizer["added_tokens"][i]["id"] = static_cast<std::size_t>(n_texts) + i;
    folder_.write("tokenizer.json", tokenizer.dump());
    folder_.write(
        "tokenizer_config.json",
        Json{{"bos_token", "<|im_start|>"}, {"eos_token", "<|im_end|>"}, {"chat_template", kTinyTemplate}}.dump());
  }

  const std::string& path() const { return folder_.path(); }
  std::string path(const std::string& file) const { return folder_.path() + "/" + file; }
  const TempFolder& folder() const { return folder_; }
  void write(const std::string& file, std::string_view content) const { folder_.write(file, content); }

 private:
  TempFolder folder_;
};

}  // namespace mneme::testing
