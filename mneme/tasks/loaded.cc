#include "mneme/tasks/loaded.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <fmt/ranges.h>

#include <chrono>
#include <filesystem>
#include <future>

#include "mneme/base/error.h"
#include "mneme/base/log.h"
#include "mneme/base/thread_pool.h"
#include "mneme/models/registry.h"
#include "mneme/ops/linear.h"

namespace mneme::tasks {
namespace {

namespace fs = std::filesystem;

at::Device device_of(const ModelRequest& request) {
  if (request.device == "cpu") return at::kCPU;
  check(request.device == "cuda", ErrorKind::kInvalidArgument, "device \"{}\" is not known; there are cpu and cuda",
        request.device);
  // ATen looks for CUDA once; the library must be there before the first question.
  const bool there = dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) != nullptr && at::hasCUDA();
  check(there, ErrorKind::kUnsupported,
        "device cuda: this LibTorch has no CUDA or the machine no NVIDIA driver; use --device cpu");
  return at::kCUDA;
}

bool comes_without_tokenizer(const std::string& path) {
  return fs::is_directory(path) && !fs::exists(fs::path(path) / "tokenizer.json");
}

/// The tokenizer that was loaded beside the model, or a warning instead where it is not needed.
std::optional<TextTokenizer> finish(std::future<TextTokenizer>& tokenizer, const std::string& path,
                                    TokenizerNeed need) {
  try {
    return tokenizer.get();
  } catch (const Error& error) {
    if (need == TokenizerNeed::kRequired) throw;
    if (!comes_without_tokenizer(path)) warn(fmt::format("no texts, ids only: {}", error.what()));
    return std::nullopt;
  }
}

std::string name_of_path(const std::string& path) {
  const fs::path clean = fs::absolute(path).lexically_normal();
  return (clean.has_filename() ? clean : clean.parent_path()).filename().string();
}

}  // namespace

const CausalLM* Loaded::causal() const {
  const auto* model_of_kind = std::get_if<std::shared_ptr<const CausalLM>>(&model);
  return model_of_kind ? model_of_kind->get() : nullptr;
}

const Seq2SeqLM* Loaded::seq2seq() const {
  const auto* model_of_kind = std::get_if<std::shared_ptr<const Seq2SeqLM>>(&model);
  return model_of_kind ? model_of_kind->get() : nullptr;
}

bool is_seq2seq(const std::string& path) {
  if (!fs::is_directory(path)) return false;  // no .gguf file of one can be read, and its metadata take long
  return architecture_of(ModelConfig::from_pretrained(path).model_type).build_seq2seq != nullptr;
}

std::optional<DType> dtype_of(const ModelRequest& request) {
  if (request.dtype == "auto" || request.dtype == "int8") return std::nullopt;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    if (request.dtype == mneme::name_of(dtype)) return dtype;
  }
  throw Error(ErrorKind::kInvalidArgument,
              "dtype \"{}\" is not known; there are auto, int8, float32, bfloat16 and float16", request.dtype);
}

std::optional<at::ScalarType> load_dtype_of(const ModelRequest& request) {
  if (request.dtype == "int8") return at::kChar;
  const std::optional<DType> dtype = dtype_of(request);
  return dtype ? std::optional(ops::scalar_type(*dtype)) : std::nullopt;
}

Loaded load(const ModelRequest& request, TokenizerNeed need) {
  const auto start = std::chrono::steady_clock::now();
  if (request.threads) ThreadPool::global().resize(*request.threads);
  at::set_num_threads(1);  // products run on our pool; a second pool would only be in its way
  const LoadOptions options{.dtype = load_dtype_of(request), .device = device_of(request)};

  auto tokenizer = std::async(std::launch::async, AutoTokenizer::from_pretrained, request.path);
  Loaded loaded{.model = {}, .tokenizer = std::nullopt, .name = name_of_path(request.path)};
  if (is_seq2seq(request.path)) {
    loaded.model = AutoModelForSeq2SeqLM::from_pretrained(request.path, options);
  } else {
    loaded.model = AutoModelForCausalLM::from_pretrained(request.path, options);
  }
  loaded.tokenizer = finish(tokenizer, request.path, need);
  loaded.load_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return loaded;
}

GenerateOptions options_of(GenerateOptions options, const std::string& cache_config,
                           const std::string& generation_config) {
  options.cache_config = cache_config_of(cache_config);
  if (!generation_config.empty()) {
    const char* const name = "--generation-config";
    try {
      const Json json = parse_json(generation_config, name);
      GenerationConfig config = GenerationConfig::from_json(json, name);
      if (!json.contains("eos_token_id")) config.eos_token_id.reset();
      if (const auto keys = GenerationConfig::keys_without_effect(json); !keys.empty()) {
        warn(
            fmt::format("{}: {} changes nothing; caches have flags of their own, and outputs beside texts (but for "
                        "--logits) are the C++ library's",
                        name, fmt::join(keys, ", ")));
      }
      options = merged(std::move(options), config);
    } catch (const Error& error) {
      throw Error(ErrorKind::kInvalidArgument, "{}", error.what());  // a flag, not a file
    }
  }
  check_values(options);
  return options;
}

std::vector<std::int64_t> ids_of(const Prompt& prompt, const Loaded& loaded) {
  if (const auto* ids = std::get_if<std::vector<std::int64_t>>(&prompt)) return *ids;
  check(loaded.tokenizer.has_value(), ErrorKind::kInvalidArgument, "{} has no tokenizer; give ids (--ids)",
        loaded.name);
  return loaded.tokenizer->tokenizer().encode(std::get<std::string>(prompt));
}

CacheConfig cache_config_of(const std::string& json) {
  return json.empty() ? CacheConfig()
                      : CacheConfig::from_json(parse_json(json, "--cache-config", RepeatedKeys::kRefuse));
}

}  // namespace mneme::tasks
