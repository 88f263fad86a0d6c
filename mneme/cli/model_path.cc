#include "mneme/cli/model_path.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "mneme/base/error.h"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDefaultModel = "SmolLM2-135M-Instruct.Q4_1.gguf";

/// An environment variable; empty ones count as unset.
std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

fs::path user_cache() {
  const std::string cache = variable("XDG_CACHE_HOME");
  return cache.empty() ? fs::path(variable("HOME")) / ".cache" : fs::path(cache);
}

std::string default_model() {
  const std::string cache = variable("MNEME_CACHE");
  const fs::path path = (cache.empty() ? user_cache() / "mneme" : fs::path(cache)) / "models" / kDefaultModel;
  check(fs::exists(path), ErrorKind::kIo,
        "the default model is not at {}; fetch it with `make setup`, or name another with --model", path.string());
  return path.string();
}

fs::path hub_cache() {
  if (const std::string cache = variable("HF_HUB_CACHE"); !cache.empty()) return cache;
  if (const std::string home = variable("HF_HOME"); !home.empty()) return fs::path(home) / "hub";
  return user_cache() / "huggingface" / "hub";
}

/// "org/name", of the characters that the hub allows; never a way out of the cache folder.
bool is_hub_id(const std::string& text) {
  const auto allowed = [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_' || c == '.' || c == '/'; };
  const std::size_t slash = text.find('/');
  return std::all_of(text.begin(), text.end(), allowed) && slash != text.npos && slash > 0 &&
         slash == text.rfind('/') && slash + 1 < text.size() && text.find("..") == text.npos && text.front() != '.';
}

/// The snapshot that refs/main names, else the only one.
fs::path snapshot_of(const fs::path& repository) {
  std::string commit;
  std::ifstream(repository / "refs" / "main") >> commit;
  if (!commit.empty() && fs::exists(repository / "snapshots" / commit)) return repository / "snapshots" / commit;
  std::error_code none;
  std::vector<fs::path> snapshots;
  for (const auto& entry : fs::directory_iterator(repository / "snapshots", none)) snapshots.push_back(entry.path());
  return snapshots.size() == 1 ? snapshots.front() : fs::path();
}

}  // namespace

std::string find_model(const std::string& given) {
  if (given.empty()) return default_model();
  if (fs::exists(given)) return given;
  check(is_hub_id(given), ErrorKind::kIo, "{}: there is no such model file or folder", given);
  std::string folder = "models--" + given;
  folder.replace(folder.find('/'), 1, "--");
  const fs::path repository = hub_cache() / folder;
  const fs::path snapshot = snapshot_of(repository);
  check(!snapshot.empty(), ErrorKind::kIo,
        "{} is no file or folder, and no snapshot of it lies in {}; fetch it with `hf download {}`", given,
        repository.string(), given);
  return snapshot.string();
}

}  // namespace mneme::cli
