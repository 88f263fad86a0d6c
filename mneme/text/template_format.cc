#include "mneme/text/template_format.h"

#include <charconv>
#include <cmath>

#include "mneme/text/template_fault.h"
#include "mneme/text/template_text.h"

namespace mneme::jinja {
namespace {

class Printer {
 public:
  explicit Printer(Run& run) : run_(run), out_(run) {}

  void print(const Value& value) {
    const Run::Level level(run_, run_.line());
    if (value.is_undefined()) {
      out_.append("Undefined");
    } else if (value.is_none()) {
      out_.append("None");
    } else if (value.is_bool()) {
      out_.append(value.truthy() ? "True" : "False");
    } else if (value.is_float()) {
      out_.append(repr_float(*value.number()));
    } else if (value.integer()) {
      out_.append(std::to_string(*value.integer()));
    } else if (value.text()) {
      print_text(*value.text());
    } else if (value.sequence()) {
      print_sequence(*value.sequence());
    } else if (value.dict()) {
      print_dict(*value.dict());
    } else if (value.iterator()) {
      out_.append(fmt::format("<{} object>", value.iterator()->type_name));
    } else {
      out_.append(value.object()->repr(run_));
    }
  }

  std::string take() { return out_.take(); }

 private:
  void print_text(const std::string& text) {
    const bool double_quoted = text.find('\'') != std::string::npos && text.find('"') == std::string::npos;
    const char quote = double_quoted ? '"' : '\'';
    std::string result(1, quote);
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t start = at;
      const char32_t c = next_code_point(text, at);
      if (c == '\\' || c == static_cast<char32_t>(quote)) {
        result += '\\';
        result += static_cast<char>(c);
      } else if (c == '\n' || c == '\r' || c == '\t') {
        result += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
      } else if (is_printable(c)) {
        result.append(text, start, at - start);
      } else {
        const auto code = static_cast<std::uint32_t>(c);
        result += code < 0x100     ? fmt::format("\\x{:02x}", code)
                  : code < 0x10000 ? fmt::format("\\u{:04x}", code)
                                   : fmt::format("\\U{:08x}", code);
      }
    }
    result += quote;
    out_.append(result);
  }

  void print_items(const std::vector<Value>& items) {
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_.append(", ");
      print(items[i]);
    }
  }

  void print_sequence(const Sequence& sequence) {
    const auto& [start, stop, step] = sequence.bounds;
    switch (sequence.kind) {
      case Sequence::Kind::kRange:
        out_.append(step == 1 ? fmt::format("range({}, {})", start, stop)
                              : fmt::format("range({}, {}, {})", start, stop, step));
        return;
      case Sequence::Kind::kTuple:
        out_.append("(");
        print_items(sequence.items);
        out_.append(sequence.items.size() == 1 ? ",)" : ")");
        return;
      case Sequence::Kind::kList: break;
      case Sequence::Kind::kKeys: out_.append("dict_keys("); break;
      case Sequence::Kind::kValues: out_.append("dict_values("); break;
      case Sequence::Kind::kItems: out_.append("dict_items("); break;
    }
    out_.append("[");
    print_items(sequence.items);
    out_.append(sequence.kind == Sequence::Kind::kList ? "]" : "])");
  }

  void print_dict(const Dict& dict) {
    out_.append("{");
    bool first = true;
    for (const auto& [canonical, key, value] : dict.entries()) {
      if (!std::exchange(first, false)) out_.append(", ");
      print(key);
      out_.append(": ");
      print(value);
    }
    out_.append("}");
  }

  Run& run_;
  TextBuilder out_;
};

}  // namespace

std::string to_text(Run& run, const Value& value) {
  if (value.text()) return *value.text();
  return value.is_undefined() ? "" : repr(run, value);
}

std::string repr(Run& run, const Value& value) {
  Printer printer(run);
  printer.print(value);
  return printer.take();
}

std::string repr_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[32];
  const auto scientific = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  std::string text(buffer, scientific.ptr);
  const int exponent = std::stoi(text.substr(text.find('e') + 1));
  if (exponent < -4 || exponent >= 16) return text;
  char fixed[64];
  const auto end = std::to_chars(fixed, fixed + sizeof fixed, value, std::chars_format::fixed);
  text.assign(fixed, end.ptr);
  return text.find('.') == std::string::npos ? text + ".0" : text;
}

}  // namespace mneme::jinja
