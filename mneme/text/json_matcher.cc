#include "mneme/text/json_matcher.h"

#include <algorithm>
#include <utility>

#include "mneme/base/error.h"

namespace mneme {
namespace {

using Kind = JsonSchemaNode::Kind;

constexpr int kMostBlanks = 32;                                // in a row: enough to indent, too few to go on for ever
constexpr std::int64_t kMostDigits = 20, kMostExponent = 2;    // so that any number is a float64
constexpr std::int64_t kMostIntegerDigits = 18;                // and any integer fits 64 bits
constexpr std::size_t kMostStatesEver = std::size_t{1} << 17;  // between two calls of forget(): 128 MiB
constexpr std::size_t kMostStacks = std::size_t{1} << 20;      // in all of them

/// Where in a node a text is.
enum Place : std::uint8_t {
  kStart,   // its value is to begin
  kInside,  // of a literal or a string
  kEscape,  // behind a backslash
  kHex1,    // the digits of \u, of which no pair of surrogates is made
  kHex2,
  kHex2Low,  // the second digit behind a d
  kHex3,
  kHex4,
  kTail1,  // so many more bytes of a character
  kTail2,
  kTail3,
  kTailE0,  // those whose first byte limits the second
  kTailED,
  kTailF0,
  kTailF4,
  kMinus,
  kZero,
  kWhole,
  kPoint,
  kFraction,
  kExponent,
  kExponentSign,
  kExponentDigits,
  kPositive,  // the digits of an integer within bounds
  kNegative,
  kFirst,  // behind an opening bracket
  kNext,   // behind a comma
  kColon,
  kBehind  // an item or a value
};

bool is_blank(std::uint8_t byte) { return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r'; }
bool is_digit(std::uint8_t byte) { return byte >= '0' && byte <= '9'; }
bool is_hex(std::uint8_t byte) { return is_digit(byte) || ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'f'); }

/// Magnitudes from `least` to `most`: whether digits behind p, at least `n` of them, lead into them.
bool leads_into(std::int64_t p, int n, std::int64_t least, std::int64_t most) {
  std::int64_t width = 1;
  for (; p <= most; p *= 10, width *= 10, --n) {
    if (n <= 0 && p + width - 1 >= least) return true;
    if (p > most / 10) return false;
  }
  return false;
}

}  // namespace

JsonMatcher::JsonMatcher(const JsonSchema& schema) : schema_(schema) { forget(); }

void JsonMatcher::forget() {
  frames_.assign(1, {});  // the end
  frame_indices_.clear();
  states_.clear();
  state_indices_.clear();
  steps_.clear();
  complete_.clear();
  n_stacks_ = 0;
}

JsonMatcher::State JsonMatcher::start() { return state_of({index_of({.node = schema_.root()})}); }

std::uint32_t JsonMatcher::index_of(const Frame& frame) {
  const auto [known, is_new] = frame_indices_.try_emplace(frame, static_cast<std::uint32_t>(frames_.size()));
  if (is_new) frames_.push_back(frame);
  return known->second;
}

JsonMatcher::State JsonMatcher::state_of(Stacks stacks) {
  std::ranges::sort(stacks);
  stacks.erase(std::unique(stacks.begin(), stacks.end()), stacks.end());
  if (stacks.empty()) return kDead;
  const auto [known, is_new] = state_indices_.try_emplace(std::move(stacks), static_cast<State>(states_.size()));
  if (!is_new) return known->second;
  n_stacks_ += known->first.size();
  check(states_.size() < kMostStatesEver && n_stacks_ < kMostStacks, ErrorKind::kUnsupported,
        "the JSON schema leaves more ways open at once than can be followed; write it with fewer choices");
  states_.push_back(known->first);
  steps_.emplace_back().fill(kUnknown);
  complete_.push_back(known->first.front() == 0);
  return known->second;
}

JsonMatcher::State JsonMatcher::step(State state, std::uint8_t byte) {
  const Stacks stacks = states_[static_cast<std::size_t>(state)];
  Stacks after;
  for (const std::uint32_t top : stacks) {
    if (top != 0) advance(Frame(frames_[top]), byte, after);
  }
  const State result = state_of(std::move(after));
  return steps_[static_cast<std::size_t>(state)][byte] = result;
}

void JsonMatcher::put(Frame frame, std::uint8_t place, std::int64_t count, Stacks& out) {
  frame.place = place;
  frame.count = count;
  frame.blanks = 0;
  out.push_back(index_of(frame));
}

/// The frame as it will be when a child that begins with this byte has ended, below that child.
void JsonMatcher::put_child(Frame frame, std::uint8_t place, std::int64_t count, std::uint32_t child, std::uint8_t byte,
                            Stacks& out) {
  frame.place = place;
  frame.count = count;
  frame.blanks = 0;
  begin({.node = child, .depth = static_cast<std::uint16_t>(frame.depth + 1), .below = index_of(frame)}, byte, out);
}

bool JsonMatcher::fits(const Frame& parent, std::uint32_t child) const {
  return parent.depth + 1 + schema_.nodes()[child].height <= JsonSchema::kMostDepth;
}

void JsonMatcher::advance(const Frame& frame, std::uint8_t byte, Stacks& out) {
  const Kind kind = node(frame).kind;
  const bool between = frame.place == kStart || frame.place >= kFirst;
  if (between && is_blank(byte)) {
    Frame same = frame;
    if (same.blanks++ < kMostBlanks) out.push_back(index_of(same));
    return;
  }
  if (frame.place == kStart) return begin(frame, byte, out);
  switch (kind) {
    case Kind::kAnyOf: return;  // begins only
    case Kind::kLiteral: return literal(frame, byte, out);
    case Kind::kString: return string(frame, byte, out);
    case Kind::kNumber:
    case Kind::kInteger: return number(frame, byte, out);
    case Kind::kIntegerWithin: return integer_within(frame, byte, out);
    case Kind::kArray: return array(frame, byte, out);
    case Kind::kObject:
    case Kind::kMap: return object(frame, byte, out);
  }
}

void JsonMatcher::begin(const Frame& frame, std::uint8_t byte, Stacks& out) {
  switch (node(frame).kind) {
    case Kind::kAnyOf:
      for (const std::uint32_t choice : node(frame).choices) {
        Frame one = frame;
        one.node = choice;
        one.blanks = 0;
        if (frame.depth + schema_.nodes()[choice].height <= JsonSchema::kMostDepth) begin(one, byte, out);
      }
      return;
    case Kind::kLiteral: return literal(frame, byte, out);
    case Kind::kString:
      if (byte == '"') put(frame, kInside, 0, out);
      return;
    case Kind::kNumber:
    case Kind::kInteger: return number(frame, byte, out);
    case Kind::kIntegerWithin: return integer_within(frame, byte, out);
    case Kind::kArray:
      if (byte == '[') put(frame, kFirst, 0, out);
      return;
    case Kind::kObject:
    case Kind::kMap:
      if (byte == '{') put(frame, kFirst, 0, out);
      return;
  }
}

void JsonMatcher::literal(const Frame& frame, std::uint8_t byte, Stacks& out) {
  const std::string& text = node(frame).literal;
  if (static_cast<std::uint8_t>(text[static_cast<std::size_t>(frame.count)]) != byte) return;
  if (frame.count + 1 == std::ssize(text)) {
    out.push_back(frame.below);
  } else {
    put(frame, kInside, frame.count + 1, out);
  }
}

/// Characters are those of UTF-8 without surrogates. (The Unicode Standard, table 3-7)
void JsonMatcher::string(const Frame& frame, std::uint8_t byte, Stacks& out) {
  const JsonSchemaNode& n = node(frame);
  const auto go = [&](std::uint8_t place) { put(frame, place, frame.count, out); };
  const auto end_character = [&] {
    const std::int64_t count = frame.count + 1;
    put(frame, kInside, n.most == INT64_MAX ? std::min(count, n.least) : count, out);
  };
  const auto tail = [&](std::uint8_t lowest, std::uint8_t highest, std::uint8_t place) {
    if (byte >= lowest && byte <= highest) go(place);
  };
  const auto digit = [&](std::uint8_t place) {
    if (is_hex(byte)) go(place);
  };
  switch (frame.place) {
    case kInside:
      if (byte == '"') {
        if (frame.count >= n.least) out.push_back(frame.below);
      } else if (frame.count >= n.most || byte < 0x20) {
        return;
      } else if (byte == '\\') {
        go(kEscape);
      } else if (byte < 0x80) {
        end_character();
      } else if (byte >= 0xc2 && byte <= 0xdf) {
        go(kTail1);
      } else if (byte >= 0xe0 && byte <= 0xef) {
        go(byte == 0xe0 ? kTailE0 : byte == 0xed ? kTailED : kTail2);
      } else if (byte >= 0xf0 && byte <= 0xf4) {
        go(byte == 0xf0 ? kTailF0 : byte == 0xf4 ? kTailF4 : kTail3);
      }
      return;
    case kEscape:
      if (byte == 'u') {
        go(kHex1);
      } else if (std::string_view("\"\\/bfnrt").find(static_cast<char>(byte)) != std::string_view::npos) {
        end_character();
      }
      return;
    case kHex1: return digit((byte | 0x20) == 'd' ? kHex2Low : kHex2);
    case kHex2Low: return tail('0', '7', kHex3);
    case kHex2: return digit(kHex3);
    case kHex3: return digit(kHex4);
    case kHex4:
      if (is_hex(byte)) end_character();
      return;
    case kTail1:
      if (byte >= 0x80 && byte <= 0xbf) end_character();
      return;
    case kTail2: return tail(0x80, 0xbf, kTail1);
    case kTail3: return tail(0x80, 0xbf, kTail2);
    case kTailE0: return tail(0xa0, 0xbf, kTail1);
    case kTailED: return tail(0x80, 0x9f, kTail1);
    case kTailF0: return tail(0x90, 0xbf, kTail2);
    case kTailF4: return tail(0x80, 0x8f, kTail2);
    default: return;
  }
}

/// Behind each digit that may be the last, what is below goes on too.
void JsonMatcher::number(const Frame& frame, std::uint8_t byte, Stacks& out) {
  const bool whole = node(frame).kind == Kind::kInteger;
  const auto digits = [&](std::uint8_t place, std::int64_t count) {
    put(frame, place, count, out);
    out.push_back(frame.below);
  };
  const auto more = [&](std::int64_t most) {
    if (is_digit(byte) && frame.count < most) digits(frame.place, frame.count + 1);
  };
  const auto behind_whole = [&] {
    if (!whole && byte == '.') put(frame, kPoint, 0, out);
    if (!whole && (byte | 0x20) == 'e') put(frame, kExponent, 0, out);
  };
  switch (frame.place) {
    case kStart:
      if (byte == '-' && node(frame).may_be_negative) put(frame, kMinus, 0, out);
      [[fallthrough]];
    case kMinus:
      if (byte == '0') digits(kZero, 0);
      if (byte >= '1' && byte <= '9') digits(kWhole, 1);
      return;
    case kZero: return behind_whole();
    case kWhole: more(whole ? kMostIntegerDigits : kMostDigits); return behind_whole();
    case kPoint:
      if (is_digit(byte)) digits(kFraction, 1);
      return;
    case kFraction:
      more(kMostDigits);
      if ((byte | 0x20) == 'e') put(frame, kExponent, 0, out);
      return;
    case kExponent:
      if (byte == '+' || byte == '-') put(frame, kExponentSign, 0, out);
      [[fallthrough]];
    case kExponentSign:
      if (is_digit(byte)) digits(kExponentDigits, 1);
      return;
    case kExponentDigits: return more(kMostExponent);
    default: return;
  }
}

void JsonMatcher::integer_within(const Frame& frame, std::uint8_t byte, Stacks& out) {
  const JsonSchemaNode& n = node(frame);
  if (frame.place == kStart && byte == '-') {
    if (n.least < 0) put(frame, kMinus, 0, out);
    return;
  }
  if (!is_digit(byte)) return;
  const bool negative = frame.place == kMinus || frame.place == kNegative;
  const std::int64_t least = std::max<std::int64_t>(0, negative ? -n.most : n.least),
                     most = negative ? -n.least : n.most;
  const std::int64_t value = frame.count * 10 + (byte - '0');
  if (value == 0) {
    if (!negative && n.least <= 0 && n.most >= 0) out.push_back(frame.below);
    return;
  }
  if (value >= least && value <= most) out.push_back(frame.below);
  if (leads_into(value, 1, least, most)) put(frame, negative ? kNegative : kPositive, value, out);
}

std::uint32_t JsonMatcher::item(const JsonSchemaNode& array, std::int64_t index) const {
  return index < std::ssize(array.choices) ? array.choices[static_cast<std::size_t>(index)] : array.value;
}

void JsonMatcher::array(const Frame& frame, std::uint8_t byte, Stacks& out) {
  const JsonSchemaNode& n = node(frame);
  const bool has_room = frame.count < n.most && fits(frame, item(n, frame.count));
  if (byte == ']') {
    if (frame.place != kNext && frame.count >= n.least) out.push_back(frame.below);
  } else if (frame.place == kBehind) {
    if (byte == ',' && has_room) put(frame, kNext, frame.count, out);
  } else if (has_room) {
    // Counts matter up to what they decide: states stay few.
    const std::int64_t last = n.most == INT64_MAX ? std::max(n.least, std::ssize(n.choices)) : n.most;
    put_child(frame, kBehind, std::min(frame.count + 1, last), item(n, frame.count), byte, out);
  }
}

/// Calls visit(property) for those that may come next: up to the first that is required.
template <class Visit>
void JsonMatcher::for_each_key(const Frame& frame, const Visit& visit) const {
  const auto& properties = node(frame).properties;
  for (auto i = static_cast<std::size_t>(frame.count); i < properties.size(); ++i) {
    if (fits(frame, properties[i].value)) visit(i);
    if (properties[i].required) return;
  }
}

void JsonMatcher::object(const Frame& frame, std::uint8_t byte, Stacks& out) {
  const JsonSchemaNode& n = node(frame);
  const bool is_map = n.kind == Kind::kMap;
  if (frame.place == kColon) {
    if (byte != ':') return;
    const auto i = static_cast<std::size_t>(frame.count);
    Frame after = frame;
    after.place = kBehind;
    after.blanks = 0;
    after.count = is_map ? 0 : frame.count + 1;
    out.push_back(index_of({.node = is_map ? n.value : n.properties[i].value,
                            .depth = static_cast<std::uint16_t>(frame.depth + 1),
                            .below = index_of(after)}));
    return;
  }
  if (byte == '}') {
    const auto rest = n.properties.begin() + (is_map ? 0 : frame.count);
    const bool all = std::none_of(rest, n.properties.end(), [](const auto& p) { return p.required; });
    if (frame.place != kNext && all) out.push_back(frame.below);
    return;
  }
  if (frame.place == kBehind) {
    bool more = is_map && fits(frame, n.value);
    for_each_key(frame, [&](std::size_t) { more = true; });
    if (byte == ',' && more) put(frame, kNext, frame.count, out);
    return;
  }
  if (is_map && fits(frame, n.value)) put_child(frame, kColon, 0, n.key, byte, out);
  for_each_key(frame, [&](std::size_t i) {
    put_child(frame, kColon, static_cast<std::int64_t>(i), n.properties[i].key, byte, out);
  });
}

}  // namespace mneme
