#pragma once

#include <memory>

#include "mneme/models/registry.h"

namespace mneme {

/// What an architecture file defines: the one function that builds it.
std::unique_ptr<Model> build_llama(const ModelConfig&, const Weights&, DType, at::Device);
std::unique_ptr<Model> build_mamba(const ModelConfig&, const Weights&, DType, at::Device);
std::unique_ptr<Model> build_mistral(const ModelConfig&, const Weights&, DType, at::Device);
std::unique_ptr<Model> build_qwen2(const ModelConfig&, const Weights&, DType, at::Device);
std::unique_ptr<Model> build_qwen3(const ModelConfig&, const Weights&, DType, at::Device);
std::unique_ptr<Seq2SeqModel> build_t5(const ModelConfig&, const Weights&, DType, at::Device);

CacheShape mamba_cache_shape(const ModelConfig&, DType, at::Device);

inline constexpr Architecture kArchitectures[] = {
    {"llama", build_llama},     {"mamba", build_mamba, nullptr, mamba_cache_shape},
    {"mistral", build_mistral}, {"qwen2", build_qwen2},
    {"qwen3", build_qwen3},     {"t5", nullptr, build_t5},
};

}  // namespace mneme
