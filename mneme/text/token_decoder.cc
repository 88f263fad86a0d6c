#include "mneme/text/token_decoder.h"

#include "mneme/base/error.h"
#include "mneme/text/component.h"
#include "mneme/text/token_decoder_stages.h"

namespace mneme {
namespace {

constexpr double kMaxGrowth = 64;  // real decoders write a space for a metaspace

}  // namespace

TokenDecoder::TokenDecoder(const Json& json, std::string_view name) {
  if (json.is_null()) {
    add<JoinWithSpacesStage>();
  } else {
    add_steps(json, name);
  }
}

template <class Stage, class... Args>
void TokenDecoder::add(Args... args) {
  steps_.push_back([args...](DecoderStage* next) { return std::make_unique<Stage>(args..., next); });
}

void TokenDecoder::add_steps(const Json& json, std::string_view name) {
  const Component component(json, "decoder", name);
  const std::string& type = component.type();
  const auto character = [&](const char* key) {
    std::string text = component.string(key);
    if (text.empty() || read_code_point(text, 0).length != text.size()) component.refuse_value(key);
    return text;
  };
  if (type == "Sequence") {
    for (const Json& step : component.array("decoders")) add_steps(step, name);
  } else if (type == "ByteLevel") {
    add<ByteLevelStage>();
  } else if (type == "ByteFallback") {
    add<ByteFallbackStage>();
  } else if (type == "Fuse") {
    add<FuseStage>();
  } else if (type == "Metaspace") {
    const bool never = component.has("prepend_scheme") ? component.string("prepend_scheme") == "never"
                                                       : !component.boolean("add_prefix_space", true);
    add<MetaspaceStage>(character("replacement"), !never);
  } else if (type == "Strip") {
    add<StripStartStage>(character("content"), component.count("start"));
    if (const std::size_t stop = component.count("stop")) add<StripStopStage>(character("content"), stop);
  } else if (type == "Replace") {
    const auto pattern = std::make_shared<const Pattern>(Pattern::from_json(component.at("pattern"), name));
    const std::string content = component.string("content");
    growth_ *= pattern->max_growth(content);
    check(growth_ <= kMaxGrowth, ErrorKind::kUnsupported,
          "{}: the decoder could make a text {} times longer; at most {}", name, growth_, kMaxGrowth);
    add<ReplaceStage>(pattern, content);
  } else if (type == "WordPiece") {
    add<WordPieceStage>(component.string("prefix"), component.boolean("cleanup"));
  } else if (type == "BPEDecoder") {
    add<BpeSuffixStage>(component.string("suffix"));
  } else {
    component.refuse();
  }
}

void TokenDecoder::add_space_cleanup() { add<SpaceCleanupStage>(); }

TokenDecoder::Stream TokenDecoder::start() const {
  Stream stream;
  stream.stages_.push_back(std::make_unique<CollectStage>(*stream.text_));
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    stream.stages_.push_back((*step)(stream.stages_.back().get()));
  }
  return stream;
}

std::string TokenDecoder::Stream::put(std::string_view token) {
  stages_.back()->part(token);
  stages_.back()->end_token();
  return std::exchange(*text_, {});
}

std::string TokenDecoder::Stream::finish() {
  stages_.back()->finish();
  return std::exchange(*text_, {});
}

}  // namespace mneme
