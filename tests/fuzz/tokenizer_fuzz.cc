// A tokenizer.json may hold anything, and so may the text that it encodes. The first byte chooses: a tokenizer.json of
// the fuzzer's own, one with a component replaced, or a good one; what follows a zero byte is the text. One Error, or
// ids that decode, with pieces of a stream that make up the whole text.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "mneme/base/error.h"
#include "mneme/base/json.h"
#include "mneme/text/detokenizer.h"
#include "mneme/text/tokenizer.h"

namespace {

const mneme::Json& good_tokenizer() {
  static const mneme::Json json = mneme::Json::parse(R"json({
    "added_tokens": [{"id": 8, "content": "<s>", "special": true, "lstrip": true}, {"id": 9, "content": "b c", "rstrip": true}],
    "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Replace", "pattern": {"Regex": " +"}, "content": "▁"}]},
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": true},
      {"type": "Split", "pattern": {"Regex": "(?i:'s)|\\p{L}+|\\s+(?!\\S)"}, "behavior": "Isolated", "invert": false},
      {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": true}]},
    "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
      {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
    "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
      "vocab": {"<unk>": 0, "a": 1, "b": 2, "ab": 3, "▁": 4, "▁a": 5, "<0xC3>": 6, "<0xA9>": 7}, "merges": ["a b", ["▁", "a"]]}})json");
  return json;
}

void encode_and_decode(const mneme::Tokenizer& tokenizer, std::string_view text) {
  const std::vector<std::int64_t> ids = tokenizer.encode(text);
  mneme::Detokenizer detokenizer(tokenizer);
  std::string pieces;
  for (const std::int64_t id : ids) {
    if (id < tokenizer.vocab_size()) pieces += detokenizer.put(id);  // a template may add any id
  }
  pieces += detokenizer.finish();
  std::vector<std::int64_t> known;
  for (const std::int64_t id : ids) {
    if (id < tokenizer.vocab_size()) known.push_back(id);
  }
  if (tokenizer.decode(known) != pieces) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t zero = input.find('\0');
  const std::string_view json = input.substr(0, zero);
  const std::string_view text = zero == input.npos ? "ab <s> b c é 12" : input.substr(zero + 1);
  constexpr const char* kParts[] = {"added_tokens",   "normalizer", "pre_tokenizer",
                                    "post_processor", "decoder",    "model"};
  try {
    const std::size_t choice = data[0] % (2 + std::size(kParts));
    if (choice == 0) {
      encode_and_decode(mneme::Tokenizer::from_json(mneme::parse_json(json, "fuzz")), text);
    } else if (choice == 1) {
      static const mneme::Tokenizer tokenizer = mneme::Tokenizer::from_json(good_tokenizer());
      encode_and_decode(tokenizer, input);
    } else {
      mneme::Json patched = good_tokenizer();
      patched[kParts[choice - 2]] = mneme::parse_json(json, "fuzz");
      encode_and_decode(mneme::Tokenizer::from_json(patched), text);
    }
  } catch (const mneme::Error&) {
  }
  return 0;
}
