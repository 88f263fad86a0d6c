#include "mneme/text/normalizer.h"

#include <functional>
#include <vector>

#include "mneme/base/error.h"
#include "mneme/text/byte_alphabet.h"
#include "mneme/text/component.h"
#include "mneme/text/pattern.h"
#include "mneme/text/precompiled.h"
#include "mneme/text/unicode.h"
#include "mneme/text/utf8.h"

namespace mneme {
namespace {

/// A normalizer that maps text to text and keeps its first character.
class TextNormalizer final : public Normalizer {
 public:
  explicit TextNormalizer(std::function<std::string(std::string_view)> map) : map_(std::move(map)) {}
  void normalize(NormalizedText& text) const override { text.text = map_(text.text); }

 private:
  std::function<std::string(std::string_view)> map_;
};

/// A normalizer that goes character by character: rewrite(c, out) appends what becomes of c, maybe nothing.
class CharacterNormalizer final : public Normalizer {
 public:
  using Rewrite = void (*)(char32_t, std::string&);
  explicit CharacterNormalizer(Rewrite rewrite) : rewrite_(rewrite) {}

  void normalize(NormalizedText& text) const override {
    std::string out;
    out.reserve(text.text.size());
    for_each_code_point(text.text, [&](char32_t c, std::size_t begin, std::size_t) {
      rewrite_(c, out);
      if (begin == 0 && out.empty()) text.at_start = false;
    });
    text.text = std::move(out);
  }

 private:
  Rewrite rewrite_;
};

/// SentencePiece's table, grapheme by grapheme. Parity: text behind something that it drops still counts as the start.
class Precompiled final : public Normalizer {
 public:
  explicit Precompiled(PrecompiledMap map) : map_(std::move(map)) {}

  void normalize(NormalizedText& text) const override {
    const std::size_t limit = max_rewritten_bytes(text.text.size());
    std::string out;
    out.reserve(text.text.size());
    for (const std::string_view grapheme : graphemes(text.text)) {
      check(map_.append(grapheme, limit, out), ErrorKind::kInvalidArgument,
            "\"precompiled_charsmap\" makes more than {} bytes of a text of {}", limit, text.text.size());
    }
    text.text = std::move(out);
  }

 private:
  PrecompiledMap map_;
};

class Strip final : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}

  void normalize(NormalizedText& text) const override {
    std::size_t first = std::string::npos, last = 0;
    for_each_code_point(text.text, [&](char32_t c, std::size_t begin, std::size_t end) {
      if (is_whitespace(c)) return;
      if (first == std::string::npos) first = begin;
      last = end;
    });
    if (first == std::string::npos) first = last = left_ ? text.text.size() : 0;
    if (right_) text.text.resize(std::max(first, last));
    if (!left_ || first == 0) return;
    text.text.erase(0, first);
    text.at_start = false;
  }

 private:
  bool left_, right_;
};

class Replace final : public Normalizer {
 public:
  Replace(Pattern pattern, std::string content) : pattern_(std::move(pattern)), content_(std::move(content)) {}

  void normalize(NormalizedText& text) const override {
    text.text = pattern_.replace_all(text.text, content_, max_rewritten_bytes(text.text.size()));
  }

 private:
  Pattern pattern_;
  std::string content_;
};

class NormalizerSequence final : public Normalizer {
 public:
  explicit NormalizerSequence(std::vector<std::unique_ptr<Normalizer>> steps) : steps_(std::move(steps)) {}

  void normalize(NormalizedText& text) const override {
    const std::size_t limit = max_rewritten_bytes(text.text.size());
    for (const auto& step : steps_) {
      step->normalize(text);
      check(text.text.size() <= limit, ErrorKind::kInvalidArgument, "the normalizer grows a text past {} bytes", limit);
    }
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> steps_;
};

void drop_marks(char32_t c, std::string& out) {
  if (!is_mark(c)) append_utf8(out, c);
}

void drop_nonspacing_marks(char32_t c, std::string& out) {
  if (!is_nonspacing_mark(c)) append_utf8(out, c);
}

/// Source: the nmt_nfkc rules of SentencePiece.
void nmt(char32_t c, std::string& out) {
  const bool control =
      (c >= 0x1 && c <= 0x8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f || c == 0x9f;
  if (control) return;
  const bool space = c == 0x9 || c == 0xa || c == 0xc || c == 0xd || c == 0x1680 || (c >= 0x200b && c <= 0x200f) ||
                     c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xfeff || c == 0xfffd;
  append_utf8(out, space ? U' ' : c);
}

void bert_clean(char32_t c, std::string& out) {
  const bool line_or_tab = c == '\t' || c == '\n' || c == '\r';
  if (c == 0 || c == 0xfffd || (!line_or_tab && is_invisible_other(c))) return;
  append_utf8(out, is_whitespace(c) ? U' ' : c);
}

void bert_space_chinese(char32_t c, std::string& out) {
  const bool spaced = is_chinese_character(c);
  if (spaced) out += ' ';
  append_utf8(out, c);
  if (spaced) out += ' ';
}

template <NormalizationForm form>
std::unique_ptr<Normalizer> unicode_normalizer() {
  return std::make_unique<TextNormalizer>([](std::string_view text) { return normalize(text, form); });
}

std::unique_ptr<Normalizer> characters(CharacterNormalizer::Rewrite rewrite) {
  return std::make_unique<CharacterNormalizer>(rewrite);
}

using Steps = std::vector<std::unique_ptr<Normalizer>>;

void add_bert_steps(const Component& json, Steps& steps) {
  const bool lowercase = json.boolean("lowercase");
  if (json.boolean("clean_text")) steps.push_back(characters(bert_clean));
  if (json.boolean("handle_chinese_chars")) steps.push_back(characters(bert_space_chinese));
  if (json.boolean("strip_accents", lowercase)) {
    steps.push_back(unicode_normalizer<NormalizationForm::kNfd>());
    steps.push_back(characters(drop_nonspacing_marks));
  }
  if (lowercase) steps.push_back(std::make_unique<TextNormalizer>(to_lowercase));
}

/// Sequences are flattened, so that one limit holds for all steps.
void add_steps(const Json& json, std::string_view name, Steps& steps) {
  const Component component(json, "normalizer", name);
  const std::string& type = component.type();
  if (type == "Sequence") {
    for (const Json& step : component.array("normalizers")) add_steps(step, name, steps);
  } else if (type == "NFC") {
    steps.push_back(unicode_normalizer<NormalizationForm::kNfc>());
  } else if (type == "NFD") {
    steps.push_back(unicode_normalizer<NormalizationForm::kNfd>());
  } else if (type == "NFKC") {
    steps.push_back(unicode_normalizer<NormalizationForm::kNfkc>());
  } else if (type == "NFKD") {
    steps.push_back(unicode_normalizer<NormalizationForm::kNfkd>());
  } else if (type == "Lowercase") {
    steps.push_back(std::make_unique<TextNormalizer>(to_lowercase));
  } else if (type == "StripAccents") {
    steps.push_back(characters(drop_marks));
  } else if (type == "Precompiled") {
    steps.push_back(std::make_unique<Precompiled>(PrecompiledMap(component.string("precompiled_charsmap"), name)));
  } else if (type == "Nmt") {
    steps.push_back(characters(nmt));
  } else if (type == "BertNormalizer") {
    add_bert_steps(component, steps);
  } else if (type == "Strip") {
    steps.push_back(std::make_unique<Strip>(component.boolean("strip_left"), component.boolean("strip_right")));
  } else if (type == "Replace") {
    steps.push_back(
        std::make_unique<Replace>(Pattern::from_json(component.at("pattern"), name), component.string("content")));
  } else if (type == "Prepend") {
    steps.push_back(std::make_unique<TextNormalizer>([prefix = component.string("prepend")](std::string_view text) {
      return text.empty() ? std::string() : prefix + std::string(text);
    }));
  } else if (type == "ByteLevel") {
    const auto spell = [](std::string_view text) { return ByteAlphabet::instance().spell(text); };
    steps.push_back(std::make_unique<TextNormalizer>(spell));
  } else {
    component.refuse();
  }
}

}  // namespace

std::unique_ptr<Normalizer> make_normalizer(const Json& json, std::string_view name) {
  if (json.is_null()) return nullptr;
  Steps steps;
  add_steps(json, name, steps);
  return std::make_unique<NormalizerSequence>(std::move(steps));
}

}  // namespace mneme
