#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mneme/models/model.h"
#include "mneme/models/seq2seq_model.h"
#include "mneme/models/weights.h"

namespace mneme {

/// Builds a model from its config and weights, in a dtype and on a device.
using ModelFactory = std::unique_ptr<Model> (*)(const ModelConfig& config, const Weights& weights, DType dtype,
                                                at::Device device);

/// The same for an encoder-decoder.
using Seq2SeqFactory = std::unique_ptr<Seq2SeqModel> (*)(const ModelConfig& config, const Weights& weights, DType dtype,
                                                         at::Device device);
/// What a cache for a model must hold, from its config alone.
using CacheShapeFunction = CacheShape (*)(const ModelConfig& config, DType dtype, at::Device device);

/// One row of the registry: an architecture file offers one for each model_type that it builds.
struct Architecture {
  const char* model_type;
  ModelFactory build;                      ///< null for encoder-decoders
  Seq2SeqFactory build_seq2seq = nullptr;  ///< theirs
  CacheShapeFunction cache_shape = cache_shape_of;
};

/// The row of a model type. Throws Error(kUnsupported) with the types that are known.
const Architecture& architecture_of(const std::string& model_type);

/// All rows, sorted by model type.
std::vector<std::string> known_architectures();

/// In what a model computes: everything as the checkpoint stores it, or everything as numbers in one dtype.
struct Arithmetic {
  std::optional<DType> dtype;  ///< of numbers and of its caches; unset: the config's
  LinearAs linear_as = LinearAs::kStored;

  Arithmetic() = default;
  Arithmetic(DType numbers) : dtype(numbers), linear_as(LinearAs::kNumbers) {}  // NOLINT(google-explicit-constructor)
  /// Linear layers in int8, with a scale for each 32 weights.
  static Arithmetic int8() {
    Arithmetic result;
    result.linear_as = LinearAs::kInt8;
    return result;
  }
};

/// Loads a model: a folder as save_pretrained writes it, or a .gguf file. Its config's fingerprint names weights,
/// config and arithmetic: models with equal ones make the same of a text, wherever their files lie. Throws what
/// ModelConfig, Weights and the architecture throw, Error(kUnsupported) for an encoder-decoder; warns of tensors that
/// nothing asked for.
std::unique_ptr<Model> load_model(const std::string& path, const Arithmetic& arithmetic, at::Device device);
/// The same for encoder-decoders, and only for them.
std::unique_ptr<Seq2SeqModel> load_seq2seq_model(const std::string& path, const Arithmetic& arithmetic,
                                                 at::Device device);

}  // namespace mneme
