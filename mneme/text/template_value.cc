#include "mneme/text/template_value.h"

#include <algorithm>

#include "mneme/text/template_fault.h"
#include "mneme/text/template_object.h"

namespace mneme::jinja {
namespace {

constexpr std::size_t kLinear = 8;  // dicts up to this size are searched without an index

int nesting_around(int inner) {
  if (inner >= kMaxNesting) fail("a value nests deeper than {} levels", kMaxNesting);
  return inner + 1;
}

int nesting_of(const std::vector<Value>& items) {
  int inner = 0;
  for (const Value& item : items) inner = std::max(inner, item.nesting());
  return nesting_around(inner);
}

}  // namespace

Value::Value() = default;
Value::Value(const Value& other) = default;
Value::Value(Value&& other) noexcept = default;
Value& Value::operator=(const Value& other) = default;
Value& Value::operator=(Value&& other) noexcept = default;
Value::~Value() = default;

Value Value::undefined(std::string message) {
  Value value;
  value.storage_ = Undefined{std::make_shared<const std::string>(std::move(message))};
  return value;
}

Value Value::sequence(Sequence::Kind kind, std::vector<Value> items, std::array<std::int64_t, 3> bounds) {
  const int nesting = nesting_of(items);
  Value value;
  value.storage_ = std::make_shared<const Sequence>(Sequence{kind, std::move(items), nesting, bounds});
  return value;
}

Value Value::iterator(std::string type_name, std::vector<Value> items) {
  const int nesting = nesting_of(items);
  Value value;
  value.storage_ = std::make_shared<Iterator>(Iterator{std::move(type_name), std::move(items), 0, nesting});
  return value;
}

bool Value::is_sequence(Sequence::Kind kind) const { return sequence() && sequence()->kind == kind; }

std::optional<std::int64_t> Value::integer() const {
  if (const auto* flag = std::get_if<bool>(&storage_)) return *flag ? 1 : 0;
  if (const auto* whole = std::get_if<std::int64_t>(&storage_)) return *whole;
  return std::nullopt;
}

std::optional<double> Value::number() const {
  if (const auto* real = std::get_if<double>(&storage_)) return *real;
  if (const auto whole = integer()) return static_cast<double>(*whole);
  return std::nullopt;
}

bool Value::truthy() const {
  if (is_undefined() || is_none()) return false;
  if (const auto real = number()) return *real != 0;
  if (text()) return !text()->empty();
  if (sequence()) return !sequence()->items.empty();
  if (dict()) return !dict()->entries().empty();
  return true;  // iterators and objects, as Python has it
}

int Value::nesting() const {
  if (sequence()) return sequence()->nesting;
  if (iterator()) return iterator()->nesting;
  if (dict()) return dict()->nesting();
  if (object()) return object()->nesting();
  return 0;
}

std::string Value::type_name() const {
  static constexpr const char* kSequences[] = {"list", "tuple", "range", "dict_keys", "dict_values", "dict_items"};
  if (is_undefined()) return "Undefined";
  if (is_none()) return "NoneType";
  if (is_bool()) return "bool";
  if (is_float()) return "float";
  if (integer()) return "int";
  if (text()) return "str";
  if (sequence()) return kSequences[static_cast<std::size_t>(sequence()->kind)];
  if (iterator()) return iterator()->type_name;
  if (dict()) return "dict";
  return object()->type_name();
}

std::string Value::undefined_message() const {
  const auto* undefined = std::get_if<Undefined>(&storage_);
  return undefined && undefined->message ? *undefined->message : "the value is undefined";
}

std::size_t Dict::position(std::string_view canonical) const {
  if (entries_.size() > kLinear) {
    const auto it = index_.find(canonical);
    return it == index_.end() ? entries_.size() : it->second;
  }
  const auto it =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return *e.canonical == canonical; });
  return static_cast<std::size_t>(it - entries_.begin());
}

const Value* Dict::find(std::string_view canonical) const {
  const std::size_t at = position(canonical);
  return at == entries_.size() ? nullptr : &entries_[at].value;
}

void Dict::set(Text canonical, Value key, Value value) {
  nesting_ = std::max(nesting_, nesting_around(std::max(key.nesting(), value.nesting())));
  const std::size_t at = position(*canonical);
  if (at < entries_.size()) {
    entries_[at].value = std::move(value);
    return;
  }
  entries_.push_back({std::move(canonical), std::move(key), std::move(value)});
  if (entries_.size() <= kLinear) return;
  for (std::size_t i = index_.size(); i < entries_.size(); ++i) index_.emplace(*entries_[i].canonical, i);
}

void Dict::set(const std::string& key, Value value) {
  Value name(key);
  set(name.shared_text(), name, std::move(value));
}

}  // namespace mneme::jinja
