// Steps of decoding behind a long past, one JSON line for each codec of the cache: what a step costs where the past
// is most of what it reads. The past is random numbers, which are quicker made than a prompt is read.
//
//   depth_bench MODEL [depth] [dtype]       default 32768 int8; random_model.py writes a model of Qwen3-0.6B's shape
//
// Rounds of all codecs take turns; a figure is the median. Several GB of memory: all caches are there at once.
#include <ATen/Parallel.h>
#include <mneme/mneme.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <string>
#include <vector>

namespace {

using mneme::Json;

constexpr std::int64_t kNewTokens = 9;
constexpr int kRounds = 5;

const std::vector<std::string> kCodecs = {R"({})",
                                          R"({"backend": "int8"})",
                                          R"({"backend": "fp8"})",
                                          R"({"backend": "kivi", "nbits": 4})",
                                          R"({"backend": "kivi", "nbits_key": 4, "nbits_value": 2})",
                                          R"({"backend": "kivi", "nbits": 2})"};

mneme::Cache filled(const mneme::CausalLM& model, const std::string& codec, std::int64_t depth) {
  mneme::CacheOptions options;
  options.config = mneme::CacheConfig::from_json(Json::parse(codec));
  options.quantized = mneme::names_codec(options.config);
  mneme::Cache cache(model.config(), options);
  const mneme::ModelConfig& config = model.config();
  at::manual_seed(1);
  const std::vector<std::int64_t> shape = {1, config.num_key_value_heads, depth, config.head_dim};
  const at::Tensor keys = at::randn(shape), values = at::randn(shape);
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) cache.update(keys, values, layer);
  return cache;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + kRounds / 2, values.end());
  return values[kRounds / 2];
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2 || argc > 4) {
    std::cerr << "usage: depth_bench MODEL [depth] [dtype]\n";
    return 2;
  }
  at::set_num_threads(1);  // Mneme has threads of its own
  const std::int64_t depth = argc > 2 ? std::stoll(argv[2]) : 32768;
  const bool bfloat16 = argc > 3 && std::string(argv[3]) == "bfloat16";
  const auto model =
      mneme::AutoModelForCausalLM::from_pretrained(argv[1], {.dtype = bfloat16 ? at::kBFloat16 : at::kChar});
  const at::Tensor ids = at::arange(depth + 1, at::kLong).remainder(model->config().vocab_size).unsqueeze(0);
  std::vector<mneme::Cache> pasts;
  for (const std::string& codec : kCodecs) pasts.push_back(filled(*model, codec, depth));
  std::vector<std::vector<double>> step_ms(kCodecs.size());
  std::vector<std::int64_t> bytes(kCodecs.size());
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < kCodecs.size(); ++i) {
      mneme::Cache cache = pasts[i].copy();
      const mneme::GenerateOutput output = model->generate(
          ids, {.max_new_tokens = kNewTokens, .do_sample = false, .eos_token_id = std::vector<std::int64_t>{}}, &cache);
      step_ms[i].push_back(output.decode_ms / static_cast<double>(output.decode_steps));
      bytes[i] = output.cache_bytes;
    }
  }
  const double plain = median(step_ms[0]);
  for (std::size_t i = 0; i < kCodecs.size(); ++i) {
    const double ms = median(step_ms[i]);
    std::cout << Json{{"cache", Json::parse(kCodecs[i])},
                      {"depth", depth},
                      {"step_ms", ms},
                      {"times_as_fast", plain / ms},
                      {"cache_bytes", bytes[i]},
                      {"weight_bytes", model->model().n_bytes()},
                      {"gbps", static_cast<double>(bytes[i] + model->model().n_bytes()) / ms / 1e6}}
                     .dump()
              << "\n";
  }
} catch (const std::exception& error) {
  std::cerr << "depth_bench: " << error.what() << "\n";
  return 1;
}
