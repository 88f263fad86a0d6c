// A schema, a zero byte, and a text: no schema may hurt, and what matches whole is JSON.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "mneme/base/error.h"
#include "mneme/base/json.h"
#include "mneme/text/json_matcher.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = input.find('\0');
  const std::string_view text = end == std::string_view::npos ? "" : input.substr(end + 1);
  try {
    const mneme::JsonSchema schema = mneme::JsonSchema::parse(input.substr(0, end));
    mneme::JsonMatcher matcher(schema);
    mneme::JsonMatcher::State state = matcher.start();
    for (std::size_t i = 0; i < text.size() && state != mneme::JsonMatcher::kDead; ++i) {
      state = matcher.next(state, static_cast<std::uint8_t>(text[i]));
    }
    if (state == mneme::JsonMatcher::kDead || !matcher.complete(state)) return 0;
  } catch (const mneme::Error&) {
    return 0;
  }
  try {
    mneme::parse_json(text, "text");
  } catch (const mneme::Error&) {
    std::abort();
  }
  return 0;
}
