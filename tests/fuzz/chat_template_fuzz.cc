// The bytes are a chat template, which comes with a model file and may be anything: it renders, or one Error says why
// not.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "mneme/base/error.h"
#include "mneme/base/json.h"
#include "mneme/text/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const mneme::Json kMessages = mneme::Json::parse(
      R"([{"role": "user", "content": "Hello"}, {"role": "assistant", "content": [{"type": "text", "text": "Hé"}], "n": 1.5}])");
  try {
    const mneme::ChatTemplate chat_template(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
    chat_template.render(kMessages, {.add_generation_prompt = true, .bos_token = "<s>"});
  } catch (const mneme::Error&) {
  }
  return 0;
}
