#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

/// The Jinja2 that chat templates are written in: values, lexer, parser, interpreter. Only chat_template.h is for
/// users.
namespace mneme::jinja {

class Dict;
class Object;
class Value;

/// Lists nest at most this deep, so that walking (and freeing) one never uses up the stack.
inline constexpr int kMaxNesting = 1000;

using Text = std::shared_ptr<const std::string>;

/// What a missing name or attribute gives: prints as nothing, is false, and says `message` when it is used otherwise.
struct Undefined {
  Text message;
};

struct None {};

/// Everything in Python that has a length and keeps its items: one struct, as only printing and types differ.
struct Sequence {
  enum class Kind { kList, kTuple, kRange, kKeys, kValues, kItems };

  Kind kind = Kind::kList;
  std::vector<Value> items;
  int nesting = 1;
  std::array<std::int64_t, 3> bounds{};  ///< start, stop and step of a range
};

/// A generator: it can be walked once, has no length, and is true even when it yields nothing.
struct Iterator;

/// A value of the template language, as Python has it. Cheap to copy; what it points to never changes, iterators and
/// objects apart. Strings are UTF-8; integers have 64 bits.
class Value {
 public:
  using Storage = std::variant<Undefined, None, bool, std::int64_t, double, Text, std::shared_ptr<const Sequence>,
                               std::shared_ptr<Iterator>, std::shared_ptr<const Dict>, std::shared_ptr<Object>>;

  Value();  ///< undefined, without a message
  // In the source file: the code for all alternatives would otherwise be in every function that passes a value.
  Value(const Value& other);
  Value(Value&& other) noexcept;
  Value& operator=(const Value& other);
  Value& operator=(Value&& other) noexcept;
  ~Value();
  Value(None none) : storage_(none) {}
  Value(bool value) : storage_(value) {}
  Value(int value) : storage_(std::int64_t{value}) {}
  Value(std::int64_t value) : storage_(value) {}
  Value(double value) : storage_(value) {}
  Value(const char* text) : Value(std::string(text)) {}
  Value(std::string text) : storage_(std::make_shared<const std::string>(std::move(text))) {}
  Value(std::string_view text) : Value(std::string(text)) {}
  Value(Text text) : storage_(std::move(text)) {}
  Value(std::shared_ptr<const Dict> dict) : storage_(std::move(dict)) {}
  Value(std::shared_ptr<Dict> dict) : storage_(std::shared_ptr<const Dict>(std::move(dict))) {}
  template <std::derived_from<Object> T>
  Value(std::shared_ptr<T> object) : storage_(std::shared_ptr<Object>(std::move(object))) {}

  static Value undefined(std::string message);
  /// Throws Fault where the items nest deeper than kMaxNesting.
  static Value sequence(Sequence::Kind kind, std::vector<Value> items, std::array<std::int64_t, 3> bounds = {});
  static Value list(std::vector<Value> items) { return sequence(Sequence::Kind::kList, std::move(items)); }
  static Value tuple(std::vector<Value> items) { return sequence(Sequence::Kind::kTuple, std::move(items)); }
  /// `type_name` is what printing it shows, e.g. "generator".
  static Value iterator(std::string type_name, std::vector<Value> items);

  bool is_undefined() const { return std::holds_alternative<Undefined>(storage_); }
  bool is_none() const { return std::holds_alternative<None>(storage_); }
  bool is_bool() const { return std::holds_alternative<bool>(storage_); }
  bool is_float() const { return std::holds_alternative<double>(storage_); }
  bool is_sequence(Sequence::Kind kind) const;

  const std::string* text() const { return get_pointer<Text>(); }  ///< null unless it is a string, and so on below
  Text shared_text() const { return std::get<Text>(storage_); }
  const Sequence* sequence() const { return get_pointer<std::shared_ptr<const Sequence>>(); }
  Iterator* iterator() const { return get_pointer<std::shared_ptr<Iterator>>(); }
  const Dict* dict() const { return get_pointer<std::shared_ptr<const Dict>>(); }
  Object* object() const { return get_pointer<std::shared_ptr<Object>>(); }
  template <class T>
  T* object_as() const {
    return dynamic_cast<T*>(object());
  }
  std::optional<std::int64_t> integer() const;  ///< an int, or a bool as 0 or 1
  std::optional<double> number() const;         ///< any of bool, int, float

  bool truthy() const;
  int nesting() const;
  /// Python's name of the type: "str", "dict", "NoneType", ...
  std::string type_name() const;
  /// What an undefined value says when it is used.
  std::string undefined_message() const;
  const Storage& storage() const { return storage_; }

 private:
  template <class Pointer>
  auto get_pointer() const -> decltype(std::declval<Pointer>().get()) {
    const auto* held = std::get_if<Pointer>(&storage_);
    return held ? held->get() : nullptr;
  }

  Storage storage_;
};

struct Iterator {
  std::string type_name;
  std::vector<Value> items;
  std::size_t next = 0;
  int nesting = 1;
};

/// A dictionary in insertion order. Keys are compared by a canonical text (see canonical_key in template_operators.h),
/// which for a string is the string itself.
class Dict {
 public:
  struct Entry {
    Text canonical;
    Value key;
    Value value;
  };

  const Value* find(std::string_view canonical) const;
  /// Adds or replaces, while the dict is being built. Throws Fault where values nest deeper than kMaxNesting.
  void set(Text canonical, Value key, Value value);
  void set(const std::string& key, Value value);
  const std::vector<Entry>& entries() const { return entries_; }
  int nesting() const { return nesting_; }

 private:
  std::size_t position(std::string_view canonical) const;

  std::vector<Entry> entries_;
  std::unordered_map<std::string_view, std::size_t> index_;  // only of dicts with more than kLinear entries
  int nesting_ = 1;
};

}  // namespace mneme::jinja
