// Mneme as a worker of compare.py (worker.py says what is asked and answered): one JSON line in, one out.
//
//   mneme_worker <model> <dtype> <threads>     dtype: auto, bfloat16, float16, float32 or int8
#include <mneme/mneme.h>

#include <sys/resource.h>

#include <chrono>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace {

using mneme::Json;
using Clock = std::chrono::steady_clock;
using Ids = std::vector<std::int64_t>;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

std::optional<at::ScalarType> dtype_of(const std::string& name) {
  static const std::map<std::string, std::optional<at::ScalarType>> types = {{"auto", std::nullopt},
                                                                             {"bfloat16", at::kBFloat16},
                                                                             {"float16", at::kHalf},
                                                                             {"float32", at::kFloat},
                                                                             {"int8", at::kChar}};
  return types.at(name);
}

/// A cache's name is the word dynamic or static, or its cache_config; "static {..}" is both.
mneme::Cache make_cache(const mneme::CausalLM& model, const std::string& name, std::int64_t most_tokens) {
  const bool is_static = name.starts_with("static");
  const std::size_t brace = name.find('{');
  mneme::CacheOptions options;
  if (is_static) options.max_cache_len = most_tokens;
  if (brace != std::string::npos) {
    options.config = mneme::CacheConfig::from_json(Json::parse(name.substr(brace)));
    options.quantized = mneme::names_codec(options.config);
  }
  return {model.config(), options};
}

class Worker {
 public:
  explicit Worker(std::shared_ptr<const mneme::CausalLM> model) : model_(std::move(model)) {}

  Json answer(const Json& request) {
    const auto ids = request.at("ids").get<Ids>();
    const auto rows = request.at("rows").get<std::int64_t>(), n_new = request.at("new_tokens").get<std::int64_t>();
    const auto name = request.at("cache").get<std::string>();
    const at::Tensor prompts = at::tensor(ids, at::kLong).unsqueeze(0).repeat({rows, 1});
    const auto most_tokens = static_cast<std::int64_t>(ids.size()) + n_new;
    mneme::Cache cache = request.at("cold").get<bool>() ? make_cache(*model_, name, most_tokens)
                                                        : past_of(name, ids, prompts, most_tokens).copy();
    const mneme::GenerateOutput output = generate(prompts, n_new, cache);
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return {{"ids", output.new_tokens.front()},
            {"prefill_ms", output.prefill_ms},
            {"step_ms", n_new > 1 ? output.decode_ms / static_cast<double>(output.decode_steps) : 0.0},
            {"cache_bytes", output.cache_bytes + output.cache_bytes_offloaded},
            {"peak_mb", static_cast<double>(usage.ru_maxrss) / 1024}};
  }

 private:
  mneme::GenerateOutput generate(const at::Tensor& prompts, std::int64_t n_new, mneme::Cache& cache) const {
    return model_->generate(
        prompts, {.max_new_tokens = n_new, .do_sample = false, .repetition_penalty = 1.0, .eos_token_id = Ids{}},
        &cache);
  }

  /// A cache that holds all ids but the last; those of one request are kept until other ids are asked about.
  const mneme::Cache& past_of(const std::string& name, const Ids& ids, const at::Tensor& prompts,
                              std::int64_t most_tokens) {
    if (ids != past_ids_ || prompts.size(0) != past_rows_) pasts_.clear();
    past_ids_ = ids, past_rows_ = prompts.size(0);
    const auto known = pasts_.find(name);
    if (known != pasts_.end()) return known->second;
    mneme::Cache& past = pasts_.emplace(name, make_cache(*model_, name, most_tokens)).first->second;
    generate(prompts.narrow(1, 0, prompts.size(1) - 1), 0, past);
    return past;
  }

  std::shared_ptr<const mneme::CausalLM> model_;
  std::map<std::string, mneme::Cache> pasts_;
  Ids past_ids_;
  std::int64_t past_rows_ = 0;
};

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 4) {
    std::cerr << "usage: mneme_worker <model> <dtype> <threads>\n";
    return 2;
  }
  const auto start = Clock::now();
  mneme::ThreadPool::global().resize(std::stoi(argv[3]));
  Worker worker(mneme::AutoModelForCausalLM::from_pretrained(argv[1], {.dtype = dtype_of(argv[2])}));
  std::cout << Json{{"version", mneme::version()}, {"load_ms", ms_since(start)}}.dump() << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << worker.answer(Json::parse(line)).dump() << std::endl;
  }
} catch (const std::exception& error) {
  std::cerr << "mneme_worker: " << error.what() << "\n";
  return 1;
}
