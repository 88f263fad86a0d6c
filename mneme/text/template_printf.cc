#include "mneme/text/template_printf.h"

#include <algorithm>

#include "mneme/text/template_fault.h"
#include "mneme/text/template_format.h"
#include "mneme/text/template_format_spec.h"
#include "mneme/text/template_operators.h"

namespace mneme::jinja {
namespace {

class PercentFormatter {
 public:
  PercentFormatter(Run& run, std::string_view text, const Value& arguments)
      : run_(run), text_(text), arguments_(arguments) {
    if (arguments.is_sequence(Sequence::Kind::kTuple)) {
      items_ = arguments.sequence()->items;
    } else {
      items_ = {arguments};
    }
  }

  std::string format() {
    TextBuilder out(run_);
    while (at_ < text_.size()) {
      const std::size_t percent = std::min(text_.find('%', at_), text_.size());
      out.append(text_.substr(at_, percent - at_));
      at_ = percent + 1;
      if (percent < text_.size()) out.append(conversion());
    }
    const bool unused = next_ < items_.size() && !named_ && !arguments_.dict();
    if (unused) fail("not all arguments converted during string formatting");
    return out.take();
  }

 private:
  char peek() const {
    if (at_ >= text_.size()) fail("incomplete format");
    return text_[at_];
  }

  std::string conversion() {
    Value value;
    if (peek() == '(') {
      value = named_argument();
    } else {
      named_ = false;
    }
    FormatSpec spec = flags();
    if (peek() == 'l' || peek() == 'h' || peek() == 'L') ++at_;
    const char type = peek();
    ++at_;
    if (type == '%') return "%";
    if (!named_) value = next_argument();
    return convert(value, spec, type);
  }

  Value named_argument() {
    const std::size_t end = text_.find(')', at_);
    if (end == std::string_view::npos) fail("incomplete format key");
    if (!arguments_.dict()) fail("format requires a mapping");
    const std::string key(text_.substr(at_ + 1, end - at_ - 1));
    const Value* found = arguments_.dict()->find(key);
    if (!found) fail("the format string names '{}', which is not among the arguments", key);
    at_ = end + 1;
    named_ = true;
    return *found;
  }

  Value next_argument() {
    if (next_ >= items_.size()) fail("not enough arguments for format string");
    return items_[next_++];
  }

  // Flags, width and precision; "-" is left, and "0" fills behind the sign.
  FormatSpec flags() {
    FormatSpec spec;
    spec.align = '>';
    spec.is_empty = false;
    for (;; ++at_) {
      const char flag = peek();
      if (flag == '-')
        spec.align = '<';
      else if (flag == '0' && spec.align != '<')
        spec.fill = "0";
      else if (flag == '+' || (flag == ' ' && spec.sign != '+'))
        spec.sign = flag;
      else if (flag == '#')
        spec.alternate = true;
      else if (flag != ' ' && flag != '0')
        break;
    }
    spec.width = number(spec);
    if (peek() == '.') {
      ++at_;
      spec.precision = std::max<std::int64_t>(0, number(spec));
    }
    return spec;
  }

  std::int64_t number(FormatSpec& spec) {
    if (peek() == '*') {
      ++at_;
      const auto given = next_argument().integer();
      if (!given) fail("* wants int");
      if (*given < 0) spec.align = '<';
      return bounded(*given < 0 ? -*given : *given);
    }
    std::int64_t value = 0;
    for (; peek() >= '0' && peek() <= '9'; ++at_) value = bounded(value * 10 + (peek() - '0'));
    return value;
  }

  static std::int64_t bounded(std::int64_t value) {
    constexpr std::int64_t kMax = 1'000'000;
    if (value < 0 || value > kMax) fail("a format's width exceeds {}", kMax);
    return value;
  }

  std::string convert(const Value& value, FormatSpec& spec, char type) {
    if (type == 's' || type == 'r' || type == 'a') {
      if (spec.fill == "0") spec.fill = " ";
      return format_value(run_, Value(type == 's' ? to_text(run_, value) : repr(run_, value)), spec);
    }
    if (type == 'c' && value.text()) return format_value(run_, value, spec);
    if (value.is_undefined()) fail("{}", value.undefined_message());
    if (!value.number()) fail("%{} format: a real number is required, not {}", type, value.type_name());
    if (spec.fill == "0" && spec.align == '>') spec.align = '=';
    static constexpr std::string_view kIntegers = "diuoxXc", kFloats = "eEfFgG";
    if (kFloats.find(type) != std::string_view::npos) {
      spec.type = type;
      return format_value(run_, Value(*value.number()), spec);
    }
    if (kIntegers.find(type) == std::string_view::npos) fail("unsupported format character '{}'", type);
    const bool truncates = type == 'd' || type == 'i' || type == 'u';
    if (value.is_float() && !truncates) fail("%{} format: an integer is required, not float", type);
    return integer(value, spec, truncates ? 'd' : type);
  }

  std::string integer(const Value& value, FormatSpec& spec, char type) {
    std::int64_t whole = 0;
    if (value.integer()) {
      whole = *value.integer();
    } else {
      const double real = *value.number();
      if (!(real > -9.2e18 && real < 9.2e18)) fail("cannot convert float {} to integer", repr_float(real));
      whole = static_cast<std::int64_t>(real);
    }
    spec.type = type;
    if (!spec.precision) return format_value(run_, Value(whole), spec);
    // A precision is the least number of digits here.
    FormatSpec digits;
    digits.is_empty = false;
    digits.type = type;
    digits.sign = spec.sign;
    digits.fill = "0";
    digits.align = '=';
    digits.width = *spec.precision + (whole < 0 || spec.sign != '-' ? 1 : 0);
    return padded(run_, format_value(run_, Value(whole), digits), spec.width, spec.align == '<' ? '<' : '>');
  }

  Run& run_;
  std::string_view text_;
  const Value& arguments_;
  std::vector<Value> items_;
  std::size_t at_ = 0;
  std::size_t next_ = 0;
  bool named_ = false;
};

}  // namespace

std::string percent_format(Run& run, std::string_view text, const Value& arguments) {
  return PercentFormatter(run, text, arguments).format();
}

}  // namespace mneme::jinja
