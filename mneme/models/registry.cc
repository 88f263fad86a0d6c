#include "mneme/models/registry.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "mneme/base/error.h"
#include "mneme/base/log.h"
#include "mneme/models/architectures.h"

namespace mneme {

const Architecture& architecture_of(const std::string& model_type) {
  for (const Architecture& row : kArchitectures) {
    if (model_type == row.model_type) return row;
  }
  throw Error(ErrorKind::kUnsupported, "model type \"{}\" is not supported; there are {}", model_type,
              fmt::join(known_architectures(), ", "));
}

std::vector<std::string> known_architectures() {
  std::vector<std::string> names;
  for (const Architecture& row : kArchitectures) names.emplace_back(row.model_type);
  std::sort(names.begin(), names.end());
  return names;
}

std::unique_ptr<Model> load_model(const std::string& path, std::optional<DType> dtype, at::Device device) {
  const ModelConfig config = ModelConfig::from_pretrained(path);
  const Architecture& architecture = architecture_of(config.model_type);
  const Weights weights = Weights::open(path);
  std::unique_ptr<Model> model = architecture.build(config, weights, dtype.value_or(config.dtype), device);
  if (const std::vector<std::string> unused = weights.unused(); !unused.empty()) {
    warn(fmt::format("{}: {} tensors are not part of a {} model and were left out: {}{}", path, unused.size(),
                     config.model_type,
                     fmt::join(unused.begin(), unused.begin() + std::min<std::ptrdiff_t>(5, std::ssize(unused)), ", "),
                     unused.size() > 5 ? ", .." : ""));
  }
  return model;
}

}  // namespace mneme
