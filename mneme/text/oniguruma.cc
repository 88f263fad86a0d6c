#include "mneme/text/oniguruma.h"

#include <cctype>
#include <cstdint>
#include <optional>
#include <vector>

#include "mneme/base/error.h"
#include "mneme/text/regex.h"
#include "mneme/text/utf8.h"

namespace mneme {
namespace {

constexpr int kMaxDepth = 64;

// Members of a PCRE2 class. Parity: Oniguruma's \w holds the superscripts and fractions of Latin-1, but not within a
// class.
constexpr const char* kWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})";
constexpr const char* kWordInClass = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
constexpr const char* kHexDigit = "0-9a-fA-F";

/// A set of characters: the members of a class, and expressions that each match exactly one character.
struct CharacterSet {
  std::string members;
  std::vector<std::string> others;

  void add(const CharacterSet& set) {
    members += set.members;
    others.insert(others.end(), set.others.begin(), set.others.end());
  }
  /// An expression that matches one character of the set.
  std::string matcher() const {
    if (others.empty()) return members.empty() ? "(?!)" : "[" + members + "]";
    std::string alternatives = members.empty() ? "" : "[" + members + "]";
    for (const std::string& other : others) alternatives += (alternatives.empty() ? "" : "|") + other;
    return "(?:" + alternatives + ")";
  }
  CharacterSet complement() const {
    if (!others.empty() || members.empty()) return {"", {"(?:(?!" + matcher() + ")(?s:.))"}};
    return {"", {"[^" + members + "]"}};
  }
};

std::string hex_escape(char32_t c) { return fmt::format("\\x{{{:x}}}", static_cast<std::uint32_t>(c)); }

std::string simplified(std::string_view name) {
  std::string simple;
  for (const char c : name) {
    if (c != ' ' && c != '_' && c != '-') simple += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return simple;
}

/// Names that Oniguruma and PCRE2 spell differently, or that mean something else.
struct PropertyName {
  const char* name;
  const char* members;
};
constexpr PropertyName kProperties[] = {
    {"alnum", R"(\p{Alphabetic}\p{Nd})"},
    {"alpha", R"(\p{Alphabetic})"},
    {"any", R"(\x{0}-\x{10ffff})"},
    {"ascii", R"(\x{0}-\x{7f})"},
    {"blank", R"(\p{Zs}\x{9})"},
    {"cntrl", R"(\p{Cc})"},
    {"digit", R"(\p{Nd})"},
    {"lower", R"(\p{Lowercase})"},
    {"punct", R"(\p{P})"},
    {"space", kUnicodeSpace},
    {"whitespace", kUnicodeSpace},
    {"upper", R"(\p{Uppercase})"},
    {"xdigit", kHexDigit},
    {"lc", R"(\p{L&})"},
    {"casedletter", R"(\p{L&})"},
    {"letter", R"(\p{L})"},
    {"uppercaseletter", R"(\p{Lu})"},
    {"lowercaseletter", R"(\p{Ll})"},
    {"titlecaseletter", R"(\p{Lt})"},
    {"modifierletter", R"(\p{Lm})"},
    {"otherletter", R"(\p{Lo})"},
    {"mark", R"(\p{M})"},
    {"nonspacingmark", R"(\p{Mn})"},
    {"spacingmark", R"(\p{Mc})"},
    {"enclosingmark", R"(\p{Me})"},
    {"number", R"(\p{N})"},
    {"decimalnumber", R"(\p{Nd})"},
    {"letternumber", R"(\p{Nl})"},
    {"othernumber", R"(\p{No})"},
    {"punctuation", R"(\p{P})"},
    {"connectorpunctuation", R"(\p{Pc})"},
    {"dashpunctuation", R"(\p{Pd})"},
    {"openpunctuation", R"(\p{Ps})"},
    {"closepunctuation", R"(\p{Pe})"},
    {"initialpunctuation", R"(\p{Pi})"},
    {"finalpunctuation", R"(\p{Pf})"},
    {"otherpunctuation", R"(\p{Po})"},
    {"symbol", R"(\p{S})"},
    {"mathsymbol", R"(\p{Sm})"},
    {"currencysymbol", R"(\p{Sc})"},
    {"modifiersymbol", R"(\p{Sk})"},
    {"othersymbol", R"(\p{So})"},
    {"separator", R"(\p{Z})"},
    {"spaceseparator", R"(\p{Zs})"},
    {"lineseparator", R"(\p{Zl})"},
    {"paragraphseparator", R"(\p{Zp})"},
    {"other", R"(\p{C})"},
    {"control", R"(\p{Cc})"},
    {"format", R"(\p{Cf})"},
    {"privateuse", R"(\p{Co})"},
    {"unassigned", R"(\p{Cn})"},
};

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  std::string translate() {
    while (!at_end()) {
      const char c = pattern_[at_];
      if (c == '\\') {
        out_ += escape();
      } else if (c == '[') {
        ++at_;
        out_ += character_class(0).matcher();
      } else if (c == '(') {
        group();
      } else if (c == '{') {
        interval();
      } else {
        out_ += c;
        ++at_;
      }
    }
    return std::move(out_);
  }

 private:
  bool at_end() const { return at_ >= pattern_.size(); }
  bool next_is(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }
  bool take(std::string_view text) {
    if (!next_is(text)) return false;
    at_ += text.size();
    return true;
  }

  [[noreturn]] void refuse(std::string_view what) const {
    throw Error(ErrorKind::kUnsupported, "the regular expression \"{}\" uses {} at byte {}, which is not supported",
                regex_excerpt(pattern_), what, at_);
  }

  char32_t character() {
    if (at_end()) refuse("an unfinished escape or class");
    const CodePoint c = read_code_point(pattern_, at_);
    if (!c.valid) refuse("bytes that are not UTF-8");
    at_ += c.length;
    return c.value;
  }

  char32_t hex(std::size_t max_digits, std::string_view end) {
    std::uint32_t value = 0;
    std::size_t n_digits = 0;
    for (; !at_end() && n_digits < max_digits && std::isxdigit(static_cast<unsigned char>(pattern_[at_])); ++n_digits) {
      const char digit = pattern_[at_++];
      value = value << 4 | static_cast<std::uint32_t>(digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10);
    }
    if (n_digits == 0 || !take(end) || value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) {
      refuse("a malformed character number");
    }
    return value;
  }

  /// \p{..} after the p: a general category, a script (never its extensions, which PCRE2 prefers), a property.
  CharacterSet property(bool negated, bool in_class) {
    if (!take("{")) refuse("\\p without braces");
    const std::size_t end = pattern_.find('}', at_);
    if (end == pattern_.npos) refuse("\\p{ without its end");
    std::string_view name = pattern_.substr(at_, end - at_);
    if (name.starts_with('^')) {
      negated = !negated;
      name.remove_prefix(1);
    }
    const CharacterSet set{property_members(name, in_class), {}};
    at_ = end + 1;
    return negated ? set.complement() : set;
  }

  std::string property_members(std::string_view name, bool in_class) const {
    const std::string simple = simplified(name);
    if (simple == "word") return in_class ? kWordInClass : kWord;
    for (const PropertyName& property : kProperties) {
      if (simple == property.name) return property.members;
    }
    for (const char c : simple) {
      if (!std::isalnum(static_cast<unsigned char>(c))) refuse("an unknown property name");
    }
    std::string category = simple;
    if (!category.empty()) category[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(category[0])));
    if (simple.size() > 2 || !is_valid_regex("\\p{" + category + "}")) {
      for (const char* prefix : {"sc:", ""}) {
        const std::string candidate = "\\p{" + (prefix + simple) + "}";
        if (is_valid_regex(candidate)) return candidate;
      }
      refuse("an unknown property name");
    }
    return "\\p{" + category + "}";
  }

  /// The escapes that stand for sets, in and out of classes; nothing if the letter is another one.
  std::optional<CharacterSet> set_escape(char letter, bool in_class) {
    const char* word = in_class ? kWordInClass : kWord;
    switch (letter) {
      case 's': return CharacterSet{kUnicodeSpace, {}};
      case 'S': return CharacterSet{R"(\S\x{180e})", {}};  // PCRE2's \s has U+180E besides
      case 'w': return CharacterSet{word, {}};
      case 'W': return CharacterSet{word, {}}.complement();
      case 'h': return CharacterSet{kHexDigit, {}};
      case 'H': return CharacterSet{kHexDigit, {}}.complement();
      case 'd': return CharacterSet{R"(\p{Nd})", {}};
      case 'D': return CharacterSet{R"(\P{Nd})", {}};
      case 'p': return property(false, in_class);
      case 'P': return property(true, in_class);
      default: return std::nullopt;
    }
  }

  /// The escapes that stand for one character, after the backslash and `letter`.
  char32_t literal_escape(char32_t letter) {
    switch (letter) {
      case 'n': return '\n';
      case 't': return '\t';
      case 'r': return '\r';
      case 'f': return '\f';
      case 'v': return '\v';
      case 'a': return '\a';
      case 'e': return 0x1b;
      case 'u': return hex(4, "");
      case 'x': {
        if (take("{")) return hex(8, "}");
        const char32_t value = hex(2, "");
        if (value > 0x7f) refuse("\\x for a byte above 7F");
        return value;
      }
      case '0': {
        char32_t value = 0;
        for (int i = 0; i < 2 && !at_end() && pattern_[at_] >= '0' && pattern_[at_] <= '7'; ++i) {
          value = value * 8 + static_cast<char32_t>(pattern_[at_++] - '0');
        }
        return value;
      }
      case 'c':
      case 'C':
      case 'M':
      case 'N':
      case 'O':
      case 'y':
      case 'Y':
      case 'g': refuse("this escape");
      default: return letter;
    }
  }

  std::string escape() {
    ++at_;
    const char32_t letter = character();
    if (letter < 0x80) {
      if (const auto set = set_escape(static_cast<char>(letter), false)) return set->matcher();
      const std::string word = CharacterSet{kWord, {}}.matcher();
      switch (letter) {
        case 'b': return fmt::format("(?:(?<={0})(?!{0})|(?<!{0})(?={0}))", word);
        case 'B': return fmt::format("(?:(?<={0})(?={0})|(?<!{0})(?!{0}))", word);
        case 'A':
        case 'z':
        case 'Z':
        case 'G':
        case 'K':
        case 'R':
        case 'X':
        case 'k':
        case '1':
        case '2':
        case '3':
        case '4':
        case '5':
        case '6':
        case '7':
        case '8':
        case '9': return {'\\', static_cast<char>(letter)};
        default: break;
      }
    }
    return hex_escape(literal_escape(letter));
  }

  /// What follows an opening bracket, up to its closing one.
  CharacterSet character_class(int depth) {
    if (depth > kMaxDepth) refuse("character classes nested this deep");
    const bool negated = take("^");
    std::vector<CharacterSet> conjuncts(1);
    for (bool first = true; first || !take("]"); first = false) {
      if (take("&&")) {
        conjuncts.emplace_back();
      } else if (take("[:")) {
        conjuncts.back().add(posix_bracket());
      } else if (take("[")) {
        conjuncts.back().add(character_class(depth + 1));
      } else {
        class_member(conjuncts.back());
      }
    }
    CharacterSet set = std::move(conjuncts.back());
    if (conjuncts.size() > 1) {
      std::string all = "(?:";
      for (std::size_t i = 0; i + 1 < conjuncts.size(); ++i) all += "(?=" + conjuncts[i].matcher() + ")";
      set = CharacterSet{"", {all + set.matcher() + ")"}};
    }
    return negated ? set.complement() : set;
  }

  CharacterSet posix_bracket() {
    const bool negated = take("^");
    const std::size_t end = pattern_.find(":]", at_);
    if (end == pattern_.npos) refuse("a POSIX bracket without its end");
    const std::string_view name = pattern_.substr(at_, end - at_);
    // Parity: [[:punct:]] has the symbols too, \p{Punct} has not.
    const CharacterSet set{name == "punct" ? R"(\p{P}\p{S})" : property_members(name, true), {}};
    at_ = end + 2;
    return negated ? set.complement() : set;
  }

  /// One character, a range, or an escape for a set.
  void class_member(CharacterSet& set) {
    const auto literal = [&]() -> std::optional<char32_t> {
      const char32_t c = character();
      if (c != '\\') return c;
      const char32_t letter = character();
      if (letter == 'b') return 0x08;
      if (letter < 0x80) {
        if (const auto escaped = set_escape(static_cast<char>(letter), true)) {
          set.add(*escaped);
          return std::nullopt;
        }
      }
      return literal_escape(letter);
    };
    const auto first = literal();
    if (!first) return;
    set.members += hex_escape(*first);
    if (!next_is("-") || next_is("-]") || next_is("-[") || next_is("-&&")) return;
    ++at_;
    if (const auto last = literal()) {
      if (*last < *first) refuse("a range that ends before it begins");
      set.members += "-" + hex_escape(*last);
    } else {
      set.members += hex_escape('-');
    }
  }

  void group() {
    ++at_;
    if (take("?#")) {
      const std::size_t end = pattern_.find(')', at_);
      if (end == pattern_.npos) refuse("a comment without its end");
      at_ = end + 1;
      return;
    }
    out_ += '(';
    if (!take("?")) return;
    out_ += '?';
    for (const char* kind : {":", "=", "!", ">", "<=", "<!", "<"}) {
      if (take(kind)) {
        out_ += kind;
        return;
      }
    }
    for (const std::size_t start = at_; !at_end(); ++at_) {
      const char c = pattern_[at_];
      if (c == ':' || c == ')') {
        // Oniguruma lets the options also bind the alternatives that follow; at the start both readings agree.
        if (c == ')' && start != 2) refuse("options inside a pattern");
        return;
      }
      if (c != 'i' && c != 'm' && c != 'x' && c != '-') break;
      out_ += c == 'm' ? 's' : c;  // Oniguruma's m lets the dot match a newline
    }
    refuse("this kind of group");
  }

  void interval() {
    std::size_t end = at_ + 1;
    while (end < pattern_.size() && (std::isdigit(static_cast<unsigned char>(pattern_[end])) || pattern_[end] == ','))
      ++end;
    const bool closed = end < pattern_.size() && pattern_[end] == '}';
    const std::string body(pattern_.substr(at_ + 1, end - at_ - 1));
    if (!closed || body.empty() || body == "," || body.find(',') != body.rfind(',')) {
      out_ += "\\{";
      ++at_;
      return;
    }
    out_ += "{" + (body.starts_with(',') ? "0" + body : body) + "}";
    at_ = end + 1;
    if (next_is("+")) refuse("a repeated interval");
  }

  std::string_view pattern_;
  std::size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string oniguruma_to_pcre2(std::string_view pattern) { return Translator(pattern).translate(); }

}  // namespace mneme
