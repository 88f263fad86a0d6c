// json.dumps, which the tojson filter of chat templates is.
#include <algorithm>
#include <cmath>

#include "mneme/text/template_fault.h"
#include "mneme/text/template_format.h"
#include "mneme/text/template_operators.h"
#include "mneme/text/template_text.h"

namespace mneme::jinja {
namespace {

class JsonPrinter {
 public:
  JsonPrinter(Run& run, const JsonStyle& style) : run_(run), style_(style), out_(run) {}

  void print(const Value& value, int level = 0) {
    const Run::Level nested(run_, run_.line());
    if (value.text()) {
      print_text(*value.text());
    } else if (value.is_sequence(Sequence::Kind::kList) || value.is_sequence(Sequence::Kind::kTuple)) {
      print_list(value.sequence()->items, level);
    } else if (value.dict()) {
      print_dict(*value.dict(), level);
    } else if (auto simple = scalar(value)) {
      out_.append(*simple);
    } else {
      fail("Object of type {} is not JSON serializable", value.type_name());
    }
  }

  std::string take() { return out_.take(); }

 private:
  static std::optional<std::string> scalar(const Value& value) {
    if (value.is_none()) return "null";
    if (value.is_bool()) return value.truthy() ? "true" : "false";
    if (value.integer()) return std::to_string(*value.integer());
    if (!value.is_float()) return std::nullopt;
    const double real = *value.number();
    if (std::isnan(real)) return "NaN";
    if (std::isinf(real)) return real > 0 ? "Infinity" : "-Infinity";
    return repr_float(real);
  }

  void print_text(const std::string& text) {
    static constexpr std::string_view kSpecial = "\"\\\n\r\t\b\f", kLetters = "\"\\nrtbf";
    std::string result = "\"";
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t start = at;
      const char32_t c = next_code_point(text, at);
      const auto special = c < 0x80 ? kSpecial.find(static_cast<char>(c)) : std::string_view::npos;
      if (special != std::string_view::npos) {
        result += '\\';
        result += kLetters[special];
      } else if (c < 0x20 || (style_.ascii_only && c > 0x7E)) {
        escape(static_cast<std::uint32_t>(c), result);
      } else {
        result.append(text, start, at - start);
      }
    }
    result += '"';
    out_.append(result);
  }

  static void escape(std::uint32_t c, std::string& result) {
    if (c < 0x10000) {
      result += fmt::format("\\u{:04x}", c);
    } else {
      const std::uint32_t rest = c - 0x10000;
      result += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
    }
  }

  void new_line(int level) {
    if (!style_.indent) return;
    out_.append("\n");
    out_.repeat(*style_.indent, level);
  }

  void print_list(const std::vector<Value>& items, int level) {
    out_.append("[");
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_.append(style_.item_separator);
      new_line(level + 1);
      print(items[i], level + 1);
    }
    if (!items.empty()) new_line(level);
    out_.append("]");
  }

  void print_dict(const Dict& dict, int level) {
    std::vector<const Dict::Entry*> entries;
    for (const auto& entry : dict.entries()) entries.push_back(&entry);
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(),
                       [&](const auto* a, const auto* b) { return less(run_, a->key, b->key); });
    }
    out_.append("{");
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out_.append(style_.item_separator);
      new_line(level + 1);
      print_key(entries[i]->key);
      out_.append(style_.key_separator);
      print(entries[i]->value, level + 1);
    }
    if (!entries.empty()) new_line(level);
    out_.append("}");
  }

  void print_key(const Value& key) {
    if (key.text()) return print_text(*key.text());
    const auto simple = scalar(key);
    if (!simple) fail("keys must be str, int, float, bool or None, not {}", key.type_name());
    print_text(*simple);
  }

  Run& run_;
  const JsonStyle& style_;
  TextBuilder out_;
};

}  // namespace

std::string to_json(Run& run, const Value& value, const JsonStyle& style) {
  JsonPrinter printer(run, style);
  printer.print(value);
  return printer.take();
}

}  // namespace mneme::jinja
