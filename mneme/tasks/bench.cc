#include "mneme/tasks/bench.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <random>

#include "mneme/base/error.h"
#include "mneme/base/thread_pool.h"
#include "mneme/generate/cache_options.h"
#include "mneme/kernels/kernels.h"
#include "mneme/tasks/loaded.h"

namespace mneme::tasks {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// What all threads read from memory, in GB/s: the most that a step could.
class Stream {
 public:
  Stream() : words_(kWords, 1) {}

  double gigabytes_per_second() {
    double best = 0;
    for (int round = 0; round < 3; ++round) {
      const Clock::time_point start = Clock::now();
      ThreadPool::global().run(kParts, [&](std::int64_t part) noexcept {
        const auto begin = words_.begin() + part * (kWords / kParts);
        std::uint64_t sum = 0;
        for (auto word = begin; word != begin + kWords / kParts; ++word) sum += *word;
        sums_[static_cast<std::size_t>(part)] = sum;
      });
      best = std::max(best, static_cast<double>(kWords * 8) / seconds_since(start) / 1e9);
    }
    return best;
  }

 private:
  static constexpr std::int64_t kWords = std::int64_t{32} << 20, kParts = 64;  // 256 MB: no cache holds them
  std::vector<std::uint64_t> words_;
  std::uint64_t sums_[kParts] = {};  // so that nobody may leave the reading out
};

/// One line of the table: `batch` sequences, each with a past of `depth` tokens.
class Measurement {
 public:
  Measurement(const CausalLM& model, const BenchRequest& request, const GenerateOptions& options)
      : model_(model), request_(request), options_(options) {}

  /// Null if it was cancelled.
  Json run(std::int64_t batch, std::int64_t depth, const BenchEvents& events) {
    const auto cancelled = [&] { return events.cancelled && events.cancelled(); };
    const at::Tensor ids = random_ids(batch, depth + 1);
    const GenerationSettings settings = resolve(options_, model_.generation_config(), depth + 1, batch);
    std::optional<Cache> past;
    GenerateOptions reading = options_;
    if (settings.use_cache) {
      reading.cache_implementation.reset();  // a cache that is given says of itself what it is
      reading.cache_config = {};
      reading.max_cache_len.reset();
    }
    const GenerateOptions writing = reading;
    reading.max_new_tokens = 0;
    reading.on_prefill = [&](std::int64_t done, std::int64_t total) {
      if (events.on_progress) events.on_progress(batch, depth, done, total);
    };
    reading.cancelled = cancelled;
    std::vector<double> prefill_ms, first_ms, step_ms;
    const Clock::time_point start = Clock::now();
    do {
      if (settings.use_cache) past.emplace(model_.config(), cache_options_of(settings));
      if (depth == 0) break;
      prefill_ms.push_back(model_.generate(ids.narrow(1, 0, depth), reading, past ? &*past : nullptr).prefill_ms);
    } while (!cancelled() && std::ssize(prefill_ms) < request_.repeat && seconds_since(start) < kPrefillSeconds);
    std::int64_t cache_bytes = 0, offloaded = 0;
    for (std::int64_t round = 0; round < request_.repeat; ++round) {
      if (cancelled()) return nullptr;
      std::optional<Cache> cache;
      if (past) cache.emplace(past->copy());
      const GenerateOutput output = model_.generate(ids, writing, cache ? &*cache : nullptr);
      first_ms.push_back(output.prefill_ms);
      step_ms.push_back(output.decode_ms / static_cast<double>(output.decode_steps));
      if (cache) cache_bytes = output.cache_bytes, offloaded = output.cache_bytes_offloaded;
    }
    const double step = median(step_ms);
    const std::int64_t step_bytes = model_.model().n_bytes() + cache_bytes + offloaded;
    Json line = {{"batch_size", batch},
                 {"depth", depth},
                 {"decode_tokens_per_s", static_cast<double>(batch) * 1e3 / step},
                 {"step_ms", step},
                 {"first_token_ms", median(first_ms)},
                 {"cache_bytes", cache_bytes},
                 {"cache_bytes_offloaded", offloaded},
                 {"bytes_per_step", step_bytes},
                 {"gigabytes_per_s", static_cast<double>(step_bytes) / step / 1e6}};
    if (depth > 0) {
      const double prefill = median(prefill_ms);
      line["prefill_ms"] = prefill;
      line["prefill_rounds"] = prefill_ms.size();
      line["prefill_tokens_per_s"] = static_cast<double>(batch * depth) * 1e3 / prefill;
    }
    return line;
  }

 private:
  static constexpr double kPrefillSeconds = 3;  // after which prompts are not read once more

  at::Tensor random_ids(std::int64_t rows, std::int64_t columns) const {
    std::mt19937_64 generator(1);
    std::uniform_int_distribution<std::int64_t> id(0, model_.config().vocab_size - 1);
    at::Tensor ids = at::empty({rows, columns}, at::kLong);
    std::generate_n(ids.mutable_data_ptr<std::int64_t>(), ids.numel(), [&] { return id(generator); });
    return ids;
  }

  const CausalLM& model_;
  const BenchRequest& request_;
  const GenerateOptions& options_;
};

void check_request(const BenchRequest& request) {
  const auto check_each = [](const std::vector<std::int64_t>& values, std::int64_t least, const char* what) {
    check(!values.empty(), ErrorKind::kInvalidArgument, "bench: no {} to measure was given", what);
    for (const std::int64_t value : values) {
      check(value >= least && value <= (std::int64_t{1} << 24), ErrorKind::kInvalidArgument,
            "bench: a {} must be {} to 2^24, it is {}", what, least, value);
    }
  };
  check_each(request.depths, 0, "depth");
  check_each(request.batch_sizes, 1, "batch size");
  check(request.new_tokens >= 2 && request.new_tokens <= (1 << 20), ErrorKind::kInvalidArgument,
        "bench: new tokens must be 2 to 2^20, since the first belongs to the prompt; they are {}", request.new_tokens);
  check(request.repeat >= 1 && request.repeat <= 1000, ErrorKind::kInvalidArgument,
        "bench: repeat must be 1 to 1000, it is {}", request.repeat);
}

}  // namespace

Json bench(const BenchRequest& request, const BenchEvents& events) {
  check_request(request);
  GenerateOptions options = request.cache;
  options.cache_config = cache_config_of(request.cache_config);
  options.max_new_tokens = request.new_tokens;
  options.do_sample = false;
  options.eos_token_id = std::vector<std::int64_t>{};  // random text may end anywhere
  check_values(options);
  const Loaded loaded = load(request.model, TokenizerNeed::kOptional);
  check(loaded.causal() != nullptr, ErrorKind::kUnsupported,
        "{} is an encoder-decoder; bench measures causal language models", loaded.name);
  const CausalLM& model = *loaded.causal();
  const std::int64_t deepest = *std::ranges::max_element(request.depths), most = model.config().max_position_embeddings;
  check(
      deepest + 1 + request.new_tokens <= most, ErrorKind::kInvalidArgument,
      "bench: a depth of {}, the token behind it and {} new ones are {}, past the model's max_position_embeddings = {}",
      deepest, request.new_tokens, deepest + 1 + request.new_tokens, most);

  Stream stream;
  const double before = stream.gigabytes_per_second();
  Measurement measurement(model, request, options);
  Json lines = Json::array();
  for (const std::int64_t batch : request.batch_sizes) {
    for (const std::int64_t depth : request.depths) {
      Json line = measurement.run(batch, depth, events);
      if (line.is_null()) continue;
      if (events.on_line) events.on_line(line);
      lines.push_back(std::move(line));
    }
  }
  return {{"model", loaded.name},
          {"dtype", request.model.dtype},
          {"instruction_set", kernels::active().name},
          {"threads", ThreadPool::global().size()},
          {"load_ms", loaded.load_ms},
          {"weight_bytes", model.model().n_bytes()},
          {"new_tokens", request.new_tokens},
          {"repeat", request.repeat},
          {"stream_gbps", {{"before", before}, {"after", stream.gigabytes_per_second()}}},
          {"results", std::move(lines)}};
}

}  // namespace mneme::tasks
