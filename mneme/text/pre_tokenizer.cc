#include "mneme/text/pre_tokenizer.h"

#include <functional>

#include "mneme/text/byte_alphabet.h"
#include "mneme/text/component.h"
#include "mneme/text/pattern.h"
#include "mneme/text/split_behavior.h"
#include "mneme/text/unicode.h"
#include "mneme/text/utf8.h"

namespace mneme {
namespace {

/// Finds delimiters in one piece.
using Finder = std::function<void(std::string_view, std::vector<ByteRange>&)>;

class Splitter final : public PreTokenizer {
 public:
  Splitter(Finder find, SplitBehavior behavior, bool invert = false)
      : find_(std::move(find)), behavior_(behavior), invert_(invert) {}

  void split(PieceList& list) const override {
    std::vector<PieceList::Piece> pieces;
    pieces.reserve(list.pieces.size());
    std::vector<ByteRange> matches, ranges;
    for (const PieceList::Piece& piece : list.pieces) {
      matches.clear();
      ranges.clear();
      const std::string_view text = list.view(piece);
      find_(text, matches);
      split_at(text.size(), matches, behavior_, invert_, ranges);
      for (const auto& [begin, end] : ranges) {
        pieces.push_back({piece.begin + begin, piece.begin + end, piece.at_start && begin == 0});
      }
    }
    list.pieces = std::move(pieces);
  }

 private:
  Finder find_;
  SplitBehavior behavior_;
  bool invert_;
};

/// Rewrites the text piece by piece; append(piece, its text, out) may not leave a piece empty.
template <class Append>
void respell(PieceList& list, Append&& append) {
  std::string text;
  text.reserve(list.text.size() + list.text.size() / 8 + 16);
  for (PieceList::Piece& piece : list.pieces) {
    const std::size_t begin = text.size();
    append(piece, list.view(piece), text);
    piece.begin = begin;
    piece.end = text.size();
  }
  list.text = std::move(text);
}

class ByteLevel final : public PreTokenizer {
 public:
  ByteLevel(bool add_prefix_space, bool use_regex) : add_prefix_space_(add_prefix_space) {
    if (!use_regex) return;
    // Source: the pattern of GPT-2.
    const Regex regex =
        Regex::from_oniguruma(R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)");
    const auto find = [regex](std::string_view text, std::vector<ByteRange>& matches) {
      regex.find_all(text, matches);
    };
    words_ = std::make_unique<Splitter>(find, SplitBehavior::kIsolated);
  }

  void split(PieceList& list) const override {
    if (add_prefix_space_) {
      respell(list, [](const PieceList::Piece&, std::string_view piece, std::string& out) {
        if (!piece.starts_with(' ')) out += ' ';
        out += piece;
      });
    }
    if (words_) words_->split(list);
    respell(list, [](const PieceList::Piece&, std::string_view piece, std::string& out) {
      for (const char byte : piece) out += ByteAlphabet::instance().character(static_cast<std::uint8_t>(byte));
    });
  }

 private:
  bool add_prefix_space_;
  std::unique_ptr<PreTokenizer> words_;
};

enum class PrependScheme { kFirst, kNever, kAlways };

class Metaspace final : public PreTokenizer {
 public:
  Metaspace(std::string replacement, PrependScheme scheme, bool split)
      : replacement_(std::move(replacement)), scheme_(scheme), split_(split) {}

  void split(PieceList& list) const override {
    respell(list, [this](const PieceList::Piece& piece, std::string_view text, std::string& out) {
      const bool prepend = scheme_ == PrependScheme::kAlways || (scheme_ == PrependScheme::kFirst && piece.at_start);
      if (prepend && !text.starts_with(' ') && !text.starts_with(replacement_)) out += replacement_;
      for (const char c : text) {
        if (c == ' ') {
          out += replacement_;
        } else {
          out += c;
        }
      }
    });
    if (!split_) return;
    const auto find = [this](std::string_view text, std::vector<ByteRange>& matches) {
      find_all_literal(text, replacement_, matches);
    };
    Splitter(find, SplitBehavior::kMergedWithNext).split(list);
  }

 private:
  std::string replacement_;
  PrependScheme scheme_;
  bool split_;
};

class PreTokenizerSequence final : public PreTokenizer {
 public:
  explicit PreTokenizerSequence(std::vector<std::unique_ptr<PreTokenizer>> steps) : steps_(std::move(steps)) {}
  void split(PieceList& list) const override {
    const std::size_t limit = max_rewritten_bytes(list.text.size());
    for (const auto& step : steps_) {
      step->split(list);
      check(list.text.size() <= limit, ErrorKind::kInvalidArgument, "the pre_tokenizer grows a text past {} bytes",
            limit);
    }
  }

 private:
  std::vector<std::unique_ptr<PreTokenizer>> steps_;
};

Finder each_character(bool (*wanted)(char32_t) noexcept) {
  return [wanted](std::string_view text, std::vector<ByteRange>& matches) {
    for_each_code_point(text, [&](char32_t c, std::size_t begin, std::size_t end) {
      if (wanted(c)) matches.push_back({begin, end});
    });
  };
}

Finder each_match(Pattern pattern) {
  return [pattern = std::move(pattern)](std::string_view text, std::vector<ByteRange>& matches) {
    pattern.find_all(text, matches);
  };
}

SplitBehavior behavior_of(const Component& component) {
  const std::string behavior = component.string("behavior");
  if (behavior == "Removed") return SplitBehavior::kRemoved;
  if (behavior == "Isolated") return SplitBehavior::kIsolated;
  if (behavior == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (behavior == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (behavior == "Contiguous") return SplitBehavior::kContiguous;
  component.refuse_value("behavior");
}

/// A key whose value must be exactly one character.
std::string character_of(const Component& component, const char* key) {
  std::string text = component.string(key);
  if (text.empty() || read_code_point(text, 0).length != text.size()) component.refuse_value(key);
  return text;
}

std::unique_ptr<PreTokenizer> metaspace(const Component& component) {
  PrependScheme scheme = PrependScheme::kAlways;
  if (component.has("prepend_scheme")) {
    const std::string name = component.string("prepend_scheme");
    if (name != "first" && name != "never" && name != "always") component.refuse_value("prepend_scheme");
    scheme = name == "first" ? PrependScheme::kFirst : name == "never" ? PrependScheme::kNever : PrependScheme::kAlways;
  }
  // Files from before prepend_scheme say add_prefix_space instead.
  if (!component.boolean("add_prefix_space", true)) scheme = PrependScheme::kNever;
  return std::make_unique<Metaspace>(character_of(component, "replacement"), scheme, component.boolean("split", true));
}

using Steps = std::vector<std::unique_ptr<PreTokenizer>>;

/// Sequences are flattened, so that one limit holds for all steps.
void add_steps(const Json& json, std::string_view name, Steps& steps) {
  const Component component(json, "pre_tokenizer", name);
  const std::string& type = component.type();
  const auto add_splitter = [&](Finder find, SplitBehavior behavior, bool invert = false) {
    steps.push_back(std::make_unique<Splitter>(std::move(find), behavior, invert));
  };
  if (type == "Sequence") {
    for (const Json& step : component.array("pretokenizers")) add_steps(step, name, steps);
  } else if (type == "ByteLevel") {
    steps.push_back(
        std::make_unique<ByteLevel>(component.boolean("add_prefix_space"), component.boolean("use_regex", true)));
  } else if (type == "Split") {
    add_splitter(each_match(Pattern::from_json(component.at("pattern"), name)), behavior_of(component),
                 component.boolean("invert"));
  } else if (type == "Metaspace") {
    steps.push_back(metaspace(component));
  } else if (type == "Digits") {
    const bool single = component.boolean("individual_digits");
    add_splitter(each_character(is_numeric), single ? SplitBehavior::kIsolated : SplitBehavior::kContiguous);
  } else if (type == "Punctuation") {
    add_splitter(each_character(is_punctuation),
                 component.has("behavior") ? behavior_of(component) : SplitBehavior::kIsolated);
  } else if (type == "Whitespace") {
    add_splitter(each_match(Pattern(Regex(fmt::format("[{0}]+|[^{0}{1}]+", kRustWord, kUnicodeSpace)))),
                 SplitBehavior::kRemoved, /*invert=*/true);
  } else if (type == "WhitespaceSplit") {
    add_splitter(each_character(is_whitespace), SplitBehavior::kRemoved);
  } else if (type == "CharDelimiterSplit") {
    add_splitter(each_match(Pattern(character_of(component, "delimiter"))), SplitBehavior::kRemoved);
  } else if (type == "BertPreTokenizer") {
    add_splitter(each_character(is_whitespace), SplitBehavior::kRemoved);
    add_splitter(each_character(is_punctuation), SplitBehavior::kIsolated);
  } else {
    component.refuse();
  }
}

}  // namespace

std::unique_ptr<PreTokenizer> make_pre_tokenizer(const Json& json, std::string_view name) {
  if (json.is_null()) return nullptr;
  Steps steps;
  add_steps(json, name, steps);
  return std::make_unique<PreTokenizerSequence>(std::move(steps));
}

}  // namespace mneme
