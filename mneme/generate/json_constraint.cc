#include "mneme/generate/json_constraint.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "mneme/base/error.h"
#include "mneme/text/json_matcher.h"

namespace mneme {
namespace {

/// The texts of one call, and where in the schema each of them is.
class Texts {
 public:
  Texts(const JsonSchema& schema, const std::vector<std::string>& tokens) : matcher_(schema), tokens_(tokens) {}

  JsonMatcher& matcher() noexcept { return matcher_; }

  /// The state behind a sequence's new tokens. Beams change places, and drafts are taken back: then it is read again.
  JsonMatcher::State state_of(const SequenceView& sequence) {
    if (matcher_.is_full()) {
      matcher_.forget();
      texts_.clear();
    }
    const auto written = sequence.tokens.subspan(static_cast<std::size_t>(sequence.prompt_length));
    Text& text = texts_[{sequence.prompt, sequence.hypothesis}];
    const bool goes_on = !text.tokens.empty() && text.tokens.size() <= written.size() &&
                         std::equal(text.tokens.begin(), text.tokens.end(), written.begin());
    if (!goes_on) text = {.tokens = {}, .state = matcher_.start()};
    for (std::size_t i = text.tokens.size(); i < written.size(); ++i) {
      text.state = behind(text.state, written[i]);
      text.tokens.push_back(written[i]);
    }
    return text.state;
  }

 private:
  struct Text {
    std::vector<std::int64_t> tokens = {};
    JsonMatcher::State state = JsonMatcher::kDead;
  };

  JsonMatcher::State behind(JsonMatcher::State state, std::int64_t id) {
    const bool known = id >= 0 && id < std::ssize(tokens_) && !tokens_[static_cast<std::size_t>(id)].empty();
    for (std::size_t i = 0; known && i < tokens_[static_cast<std::size_t>(id)].size() && state >= 0; ++i) {
      state = matcher_.next(state, static_cast<std::uint8_t>(tokens_[static_cast<std::size_t>(id)][i]));
    }
    check(
        known && state != JsonMatcher::kDead, ErrorKind::kFailedPrecondition,
        "token {} does not fit the JSON schema: something else that was asked for forced it; leave one of the two out",
        id);
    return state;
  }

  JsonMatcher matcher_;
  const std::vector<std::string>& tokens_;
  std::map<std::pair<std::int64_t, std::int64_t>, Text> texts_;  // by prompt and hypothesis
};

}  // namespace

JsonConstraint::JsonConstraint(JsonSchema schema, const Tokenizer& tokenizer)
    : schema_(std::move(schema)), tokens_(token_bytes(tokenizer)), trie_(tokens_) {}

LogitsProcessor JsonConstraint::processor(std::vector<std::int64_t> eos_token_id) const {
  return [this, eos = std::move(eos_token_id), texts = std::make_shared<Texts>(schema_, tokens_),
          allowed = std::vector<char>()](std::span<float> scores, const SequenceView& sequence) mutable {
    JsonMatcher& matcher = texts->matcher();
    const JsonMatcher::State state = texts->state_of(sequence);
    allowed.assign(scores.size(), false);
    const auto allow = [&](std::int64_t id) {
      if (id >= 0 && id < std::ssize(allowed)) allowed[static_cast<std::size_t>(id)] = true;
    };
    trie_.for_each_match(
        state, JsonMatcher::kDead, [&](JsonMatcher::State from, std::uint8_t byte) { return matcher.next(from, byte); },
        allow);
    if (matcher.complete(state)) std::ranges::for_each(eos, allow);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      if (!allowed[i]) scores[i] = -std::numeric_limits<float>::infinity();
    }
  };
}

}  // namespace mneme
