#pragma once

#include <memory>

#include "mneme/models/registry.h"

namespace mneme {

/// What an architecture file defines: the one function that builds it.
std::unique_ptr<Model> build_deepseek_v3(const ModelConfig&, const Weights&, DType, at::Device);
std::unique_ptr<Model> build_falcon_h1(const ModelConfig&, const Weights&, DType, at::Device);
std::unique_ptr<Model> build_gemma2(const ModelConfig&, const Weights&, DType, at::Device);
std::unique_ptr<Model> build_gemma3(const ModelConfig&, const Weights&, DType, at::Device);
std::unique_ptr<Model> build_gemma4(const ModelConfig&, const Weights&, DType, at::Device);
std::unique_ptr<Model> build_gpt2(const ModelConfig&, const Weights&, DType, at::Device);
std::unique_ptr<Model> build_gpt_oss(const ModelConfig&, const Weights&, DType, at::Device);
std::unique_ptr<Model> build_granite(const ModelConfig&, const Weights&, DType, at::Device);
std::unique_ptr<Model> build_lfm2(const ModelConfig&, const Weights&, DType, at::Device);
std::unique_ptr<Model> build_llama(const ModelConfig&, const Weights&, DType, at::Device);
std::unique_ptr<Model> build_llama4(const ModelConfig&, const Weights&, DType, at::Device);
std::unique_ptr<Model> build_mamba(const ModelConfig&, const Weights&, DType, at::Device);
std::unique_ptr<Model> build_mamba2(const ModelConfig&, const Weights&, DType, at::Device);
std::unique_ptr<Model> build_mistral(const ModelConfig&, const Weights&, DType, at::Device);
std::unique_ptr<Model> build_mixtral(const ModelConfig&, const Weights&, DType, at::Device);
std::unique_ptr<Model> build_olmo2(const ModelConfig&, const Weights&, DType, at::Device);
std::unique_ptr<Model> build_phi3(const ModelConfig&, const Weights&, DType, at::Device);
std::unique_ptr<Model> build_qwen2(const ModelConfig&, const Weights&, DType, at::Device);
std::unique_ptr<Model> build_qwen3(const ModelConfig&, const Weights&, DType, at::Device);
std::unique_ptr<Model> build_qwen3_moe(const ModelConfig&, const Weights&, DType, at::Device);
std::unique_ptr<Model> build_qwen3_next(const ModelConfig&, const Weights&, DType, at::Device);
std::unique_ptr<Model> build_smollm3(const ModelConfig&, const Weights&, DType, at::Device);
std::unique_ptr<Seq2SeqModel> build_bart(const ModelConfig&, const Weights&, DType, at::Device);
std::unique_ptr<Seq2SeqModel> build_marian(const ModelConfig&, const Weights&, DType, at::Device);
std::unique_ptr<Seq2SeqModel> build_mbart(const ModelConfig&, const Weights&, DType, at::Device);
std::unique_ptr<Seq2SeqModel> build_t5(const ModelConfig&, const Weights&, DType, at::Device);
std::unique_ptr<Seq2SeqModel> build_whisper(const ModelConfig&, const Weights&, DType, at::Device);

CacheShape deepseek_v3_cache_shape(const ModelConfig&, DType, at::Device);
CacheShape falcon_h1_cache_shape(const ModelConfig&, DType, at::Device);
CacheShape gemma4_cache_shape(const ModelConfig&, DType, at::Device);
CacheShape lfm2_cache_shape(const ModelConfig&, DType, at::Device);
CacheShape mamba2_cache_shape(const ModelConfig&, DType, at::Device);
CacheShape mamba_cache_shape(const ModelConfig&, DType, at::Device);
CacheShape qwen3_next_cache_shape(const ModelConfig&, DType, at::Device);

inline constexpr Architecture kArchitectures[] = {
    // clang-format off
    {"bart", nullptr, build_bart},
    {"deepseek_v3", build_deepseek_v3, nullptr, deepseek_v3_cache_shape},
    {"falcon_h1", build_falcon_h1, nullptr, falcon_h1_cache_shape},
    {"gemma2", build_gemma2},
    {"gemma3_text", build_gemma3},
    {"gemma4_text", build_gemma4, nullptr, gemma4_cache_shape},
    {"gpt2", build_gpt2},
    {"gpt_oss", build_gpt_oss},
    {"granite", build_granite},
    {"lfm2", build_lfm2, nullptr, lfm2_cache_shape},
    {"llama", build_llama},
    {"llama4_text", build_llama4},
    {"mamba", build_mamba, nullptr, mamba_cache_shape},
    {"mamba2", build_mamba2, nullptr, mamba2_cache_shape},
    {"marian", nullptr, build_marian},
    {"mbart", nullptr, build_mbart},
    {"mistral", build_mistral},
    {"mixtral", build_mixtral},
    {"olmo2", build_olmo2},
    {"phi3", build_phi3},
    {"qwen2", build_qwen2},
    {"qwen3", build_qwen3},
    {"qwen3_moe", build_qwen3_moe},
    {"qwen3_next", build_qwen3_next, nullptr, qwen3_next_cache_shape},
    {"smollm3", build_smollm3},
    {"t5", nullptr, build_t5},
    {"whisper", nullptr, build_whisper},
    // clang-format on
};

}  // namespace mneme
