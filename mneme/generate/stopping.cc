#include "mneme/generate/stopping.h"

#include <algorithm>
#include <chrono>

namespace mneme {
namespace {

constexpr std::size_t kFirstTokens = 8;     // what a stop string is looked for in at least
constexpr std::size_t kBytesOfTokens = 64;  // two tokens, and more

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

Stopping::Stopping(const GenerationSettings& settings, const GenerateOptions& options)
    : settings_(settings), options_(options), start_(now()) {}

double Stopping::seconds() const { return now() - start_; }

bool Stopping::is_eos(std::int64_t id) const {
  return std::ranges::find(settings_.eos_token_id, id) != settings_.eos_token_id.end();
}

/// Whether the last token ends a stop string, which may begin anywhere before it. (Parity: in the prompt too, and
/// however few tokens are new; min_new_tokens keeps an eos away and nothing else.) A text's last tokens, decoded alone,
/// may begin differently, so they are taken until a stop string fits behind the first of them.
bool Stopping::ends_stop_string(const Sequence& s) const {
  const auto& stops = settings_.options.stop_strings;
  if (stops.empty()) return false;
  std::size_t longest = 0;
  for (const std::string& stop : stops) longest = std::max(longest, stop.size());
  std::vector<std::int64_t> tail;
  std::string text;
  for (std::size_t n = kFirstTokens; true; n *= 2) {
    const std::size_t count = std::min(n, s.tokens.size());
    tail.assign(s.tokens.end() - static_cast<std::ptrdiff_t>(count), s.tokens.end());
    text = options_.tokenizer_decode(tail);
    if (count == s.tokens.size() || text.size() > longest + kBytesOfTokens) break;
  }
  const auto holds = [&](std::size_t from) {
    return [&text, from](const std::string& stop) {
      return text.find(stop, from < stop.size() ? 0 : from - stop.size() + 1) != std::string::npos;
    };
  };
  if (std::ranges::none_of(stops, holds(0))) return false;  // so it is nearly always
  tail.pop_back();
  const std::string before = options_.tokenizer_decode(tail);
  const auto known = static_cast<std::size_t>(std::ranges::mismatch(text, before).in1 - text.begin());
  return std::ranges::any_of(stops, holds(known));
}

std::string Stopping::reason_of_text(const Sequence& s) const {
  if (is_eos(s.tokens.back()) || ends_stop_string(s)) return "stop";
  const SequenceView view{.tokens = s.tokens,
                          .prompt_length = s.prompt_length,
                          .n_without_ids = s.n_without_ids,
                          .source = {},
                          .prompt = s.prompt,
                          .hypothesis = s.hypothesis};
  for (const auto& criterion : options_.stopping_criteria) {
    if (criterion(view)) return "stop";
  }
  return s.n_new() >= settings_.max_new_tokens ? "length" : "";
}

std::string Stopping::reason_of_call() const {
  if (settings_.options.max_time && seconds() >= *settings_.options.max_time) return "time";
  return options_.cancelled && options_.cancelled() ? "cancelled" : "";
}

}  // namespace mneme
