#include "mneme/models/registry.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "mneme/base/checksum.h"
#include "mneme/base/error.h"
#include "mneme/base/log.h"
#include "mneme/base/printable.h"
#include "mneme/models/architectures.h"

namespace mneme {

const Architecture& architecture_of(const std::string& model_type) {
  for (const Architecture& row : kArchitectures) {
    if (model_type == row.model_type) return row;
  }
  throw Error(ErrorKind::kUnsupported, "model type \"{}\" is not supported; there are {}", printable(model_type),
              fmt::join(known_architectures(), ", "));
}

std::vector<std::string> known_architectures() {
  std::vector<std::string> names;
  for (const Architecture& row : kArchitectures) names.emplace_back(row.model_type);
  std::sort(names.begin(), names.end());
  return names;
}

namespace {

std::string fingerprint_of(const ModelConfig& config, const Weights& weights, DType dtype, LinearAs linear_as) {
  const std::string made_of = fmt::format("{} {} {}", config.raw.dump(), name_of(dtype), static_cast<int>(linear_as));
  return fmt::format("{:016x}{:016x}", static_cast<std::uint64_t>(weights.fingerprint()),
                     static_cast<std::uint64_t>(checksum(std::as_bytes(std::span(made_of)))));
}

template <class Factory>
auto load(const std::string& path, ModelConfig config, Factory build, const Arithmetic& arithmetic, at::Device device) {
  check(device.is_cpu() || (device.is_cuda() && at::hasCUDA()), ErrorKind::kUnsupported,
        "device {} cannot be used: this LibTorch or this machine does not have it; use the CPU", device.str());
  const Weights weights = Weights::open(path, arithmetic.linear_as);
  const DType dtype = arithmetic.dtype.value_or(config.dtype);
  config.fingerprint = fingerprint_of(config, weights, dtype, arithmetic.linear_as);
  auto model = build(config, weights, dtype, device);
  weights.drop_pages();
  if (const std::vector<std::string> unused = weights.unused(); !unused.empty()) {
    warn(fmt::format("{}: {} tensors are not part of a {} model and were left out: {}{}", path, unused.size(),
                     config.model_type,
                     fmt::join(unused.begin(), unused.begin() + std::min<std::ptrdiff_t>(5, std::ssize(unused)), ", "),
                     unused.size() > 5 ? ", .." : ""));
  }
  return model;
}

}  // namespace

std::unique_ptr<Model> load_model(const std::string& path, const Arithmetic& arithmetic, at::Device device) {
  const ModelConfig config = ModelConfig::from_pretrained(path);
  const Architecture& architecture = architecture_of(config.model_type);
  check(architecture.build != nullptr, ErrorKind::kUnsupported,
        "{}: {} is an encoder-decoder, not a causal language model; load it with AutoModelForSeq2SeqLM", path,
        config.model_type);
  return load(path, config, architecture.build, arithmetic, device);
}

std::unique_ptr<Seq2SeqModel> load_seq2seq_model(const std::string& path, const Arithmetic& arithmetic,
                                                 at::Device device) {
  const ModelConfig config = ModelConfig::from_pretrained(path);
  const Architecture& architecture = architecture_of(config.model_type);
  check(architecture.build_seq2seq != nullptr, ErrorKind::kUnsupported,
        "{}: {} is a causal language model, not an encoder-decoder; load it with AutoModelForCausalLM", path,
        config.model_type);
  return load(path, config, architecture.build_seq2seq, arithmetic, device);
}

}  // namespace mneme
