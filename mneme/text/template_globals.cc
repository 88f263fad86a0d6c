#include "mneme/text/template_globals.h"

#include "mneme/text/template_fault.h"
#include "mneme/text/template_format.h"
#include "mneme/text/template_operators.h"
#include "mneme/text/template_parameters.h"

namespace mneme::jinja {
namespace {

Value range(Run& run, const Value&, Arguments arguments) {
  const Parameters given("range", std::move(arguments), {"", " ", "  "}, 1);
  const std::int64_t start = given.has(1) ? given.integer(0, 0) : 0;
  const std::int64_t stop = given.has(1) ? given.integer(1, 0) : given.integer(0, 0);
  const std::int64_t step = given.integer(2, 1);
  if (step == 0) fail("range() arg 3 must not be zero");
  const auto limit = static_cast<std::size_t>(run.limits().range_length);
  std::vector<Value> items;
  for (std::int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (items.size() == limit) fail("Range too big. The sandbox blocks ranges larger than {}.", limit);
    items.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  run.build(items.size() * sizeof(Value));
  return Value::sequence(Sequence::Kind::kRange, std::move(items), {start, stop, step});
}

// dict(mapping or pairs, key=value): also what namespace() takes.
Dict new_dict(Run& run, Arguments arguments) {
  Dict dict;
  if (arguments.positional.size() > 1) fail("dict expected at most 1 argument, got {}", arguments.positional.size());
  for (const Value& source : arguments.positional) {
    if (source.dict()) {
      for (const auto& [canonical, key, value] : source.dict()->entries()) dict.set(canonical, key, value);
      continue;
    }
    for (const Value& item : iterate(run, source)) {
      const std::vector<Value> pair = iterate(run, item);
      if (pair.size() != 2) fail("dict(): an item has {} values; 2 are required", pair.size());
      dict.set(canonical_key(run, pair[0]), pair[0], pair[1]);
    }
  }
  for (auto& [name, value] : arguments.named) dict.set(name, std::move(value));
  return dict;
}

Value dict_from_keys(Run& run, const Value&, Arguments arguments) {
  const Parameters given("fromkeys", std::move(arguments), {"", " "}, 1);
  Dict dict;
  for (const Value& key : iterate(run, given.value(0))) dict.set(canonical_key(run, key), key, given.value(1));
  return run.dict(std::move(dict));
}

class DictMaker final : public Object {
 public:
  std::string type_name() const override { return "TemplateDict"; }
  bool callable() const override { return true; }
  Value call(Run& run, Arguments arguments) override { return run.dict(new_dict(run, std::move(arguments))); }
  std::optional<Value> attribute(Run&, std::string_view name) override {
    if (name != "fromkeys") return std::nullopt;
    return Value(std::make_shared<Function>("fromkeys", dict_from_keys));
  }
};

Value new_namespace(Run& run, const Value&, Arguments arguments) {
  Dict attributes = new_dict(run, std::move(arguments));
  for (const auto& entry : attributes.entries()) {
    if (entry.key.text() && entry.key.text()->starts_with('_')) {
      fail("a namespace cannot store '{}': it starts with an underscore", *entry.key.text());
    }
  }
  return Value(run.new_namespace(std::move(attributes)));
}

class Joiner final : public Object {
 public:
  explicit Joiner(Value separator) : separator_(std::move(separator)) {}
  std::string type_name() const override { return "Joiner"; }
  bool callable() const override { return true; }
  Value call(Run&, Arguments arguments) override {
    const Parameters none("joiner", std::move(arguments), {});
    return std::exchange(used_, true) ? separator_ : Value("");
  }
  int nesting() const override { return separator_.nesting() + 1; }

 private:
  Value separator_;
  bool used_ = false;
};

Value new_joiner(Run&, const Value&, Arguments arguments) {
  const Parameters given("joiner", std::move(arguments), {"sep"});
  return Value(std::make_shared<Joiner>(given.value(0, Value(", "))));
}

class Cycler final : public Object, public std::enable_shared_from_this<Cycler> {
 public:
  explicit Cycler(Value items) : items_(std::move(items)) {}
  std::string type_name() const override { return "Cycler"; }
  int nesting() const override { return items_.nesting() + 1; }
  std::optional<Value> attribute(Run& run, std::string_view name) override;

  const Value& current() const { return items_.sequence()->items[at_]; }
  void advance() { at_ = (at_ + 1) % items_.sequence()->items.size(); }
  void reset() { at_ = 0; }

 private:
  Value items_;
  std::size_t at_ = 0;
};

Value cycler_next(Run&, const Value& self, Arguments arguments) {
  const Parameters none("next", std::move(arguments), {});
  auto* cycler = self.object_as<Cycler>();
  Value item = cycler->current();
  cycler->advance();
  return item;
}

Value cycler_reset(Run&, const Value& self, Arguments arguments) {
  const Parameters none("reset", std::move(arguments), {});
  self.object_as<Cycler>()->reset();
  return None{};
}

std::optional<Value> Cycler::attribute(Run&, std::string_view name) {
  const auto bound = [&](NativeFunction function) {
    return Value(std::make_shared<Function>(std::string(name), function, Value(shared_from_this())));
  };
  if (name == "current") return current();
  if (name == "items") return items_;
  if (name == "pos") return Value(static_cast<std::int64_t>(at_));
  if (name == "next") return bound(cycler_next);
  if (name == "reset") return bound(cycler_reset);
  return std::nullopt;
}

Value new_cycler(Run& run, const Value&, Arguments arguments) {
  if (arguments.positional.empty()) fail("at least one item has to be provided");
  if (!arguments.named.empty()) fail("cycler() takes no keyword argument '{}'", arguments.named.front().first);
  Value items = run.list(std::move(arguments.positional), Sequence::Kind::kTuple);
  return Value(std::make_shared<Cycler>(std::move(items)));
}

Value raise_exception(Run& run, const Value&, Arguments arguments) {
  const Parameters given("raise_exception", std::move(arguments), {"message"}, 1);
  throw RaisedByTemplate(to_text(run, given.value(0)));
}

Value strftime_now(Run& run, const Value&, Arguments arguments) {
  const Parameters given("strftime_now", std::move(arguments), {"format"}, 1);
  // A mark at the end tells an empty result from one that does not fit.
  const std::string format = given.text(0) + "|";
  if (format.find('\0') != std::string::npos) fail("strftime_now: embedded null character");
  const std::tm now = run.now();
  char buffer[4096];
  const std::size_t length = std::strftime(buffer, sizeof buffer, format.c_str(), &now);
  if (length == 0) fail("strftime_now: the result exceeds {} bytes", sizeof buffer - 2);
  return run.text(std::string(buffer, length - 1));
}

Value lipsum(Run&, const Value&, Arguments) { fail_unsupported("lipsum is not supported in chat templates"); }

}  // namespace

void define_globals(Run& run) {
  const auto function = [&](const char* name, NativeFunction native) {
    run.assign(name, Value(std::make_shared<Function>(name, native)));
  };
  function("range", range);
  function("namespace", new_namespace);
  function("joiner", new_joiner);
  function("cycler", new_cycler);
  function("lipsum", lipsum);
  function("raise_exception", raise_exception);
  function("strftime_now", strftime_now);
  run.assign("dict", Value(std::make_shared<DictMaker>()));
}

}  // namespace mneme::jinja
