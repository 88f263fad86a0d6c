#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace mneme::testing {

/// The path of the default model, SmolLM2-135M-Instruct.Q4_1.gguf: MNEME_TEST_MODEL if set, else where scripts/setup.sh
/// puts it. Empty if there is no such file; tests then skip with kNoDefaultModel.
inline std::string default_model_path() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value ? value : "");
  };
  std::string path = variable("MNEME_TEST_MODEL");
  if (path.empty()) {
    std::string cache = variable("MNEME_CACHE");
    if (cache.empty()) {
      const std::string xdg = variable("XDG_CACHE_HOME");
      cache = (xdg.empty() ? variable("HOME") + "/.cache" : xdg) + "/mneme";
    }
    path = cache + "/models/SmolLM2-135M-Instruct.Q4_1.gguf";
  }
  return std::filesystem::exists(path) ? path : std::string();
}

inline constexpr const char* kNoDefaultModel =
    "the default model is not there; run scripts/setup.sh, or set MNEME_TEST_MODEL to SmolLM2-135M-Instruct.Q4_1.gguf";

}  // namespace mneme::testing
