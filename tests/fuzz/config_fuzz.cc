// The bytes are a config.json: it gives a configuration whose sizes agree, or one Error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "mneme/base/error.h"
#include "mneme/base/json.h"
#include "mneme/models/config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto config = mneme::ModelConfig::from_json(mneme::parse_json(text, "fuzz"), "fuzz");
    if (config.layer_types.size() != static_cast<std::size_t>(config.num_hidden_layers)) std::abort();
    if (config.num_key_value_heads && config.num_attention_heads % config.num_key_value_heads) std::abort();
  } catch (const mneme::Error&) {
  }
  return 0;
}
