#include "mneme/text/template_loop.h"

#include "mneme/text/template_fault.h"
#include "mneme/text/template_operators.h"

namespace mneme::jinja {
namespace {

Value call_cycle(Run&, const Value& loop, Arguments arguments) {
  if (arguments.positional.empty()) fail("loop.cycle() needs items");
  const auto index = static_cast<std::size_t>(loop.object_as<Loop>()->index());
  return arguments.positional[index % arguments.positional.size()];
}

Value call_changed(Run& run, const Value& loop, Arguments arguments) {
  return loop.object_as<Loop>()->changed(run, std::move(arguments.positional));
}

}  // namespace

bool Loop::changed(Run& run, std::vector<Value> values) {
  Value now = run.list(std::move(values), Sequence::Kind::kTuple);
  if (last_changed_ && equal(run, *last_changed_, now)) return false;
  last_changed_ = std::move(now);
  return true;
}

std::string Loop::repr(Run&) const { return fmt::format("<LoopContext {}/{}>", index_ + 1, items_.size()); }

std::optional<Value> Loop::attribute(Run&, std::string_view name) {
  const auto length = static_cast<std::int64_t>(items_.size());
  const auto item = [&](std::int64_t at, const char* missing) {
    return at >= 0 && at < length ? items_[static_cast<std::size_t>(at)] : Value::undefined(missing);
  };
  const auto bound = [&](NativeFunction function) {
    return Value(std::make_shared<Function>(std::string(name), function, Value(shared_from_this())));
  };
  if (name == "index") return Value(index_ + 1);
  if (name == "index0") return Value(index_);
  if (name == "revindex") return Value(length - index_);
  if (name == "revindex0") return Value(length - index_ - 1);
  if (name == "first") return Value(index_ == 0);
  if (name == "last") return Value(index_ + 1 >= length);
  if (name == "length") return Value(length);
  if (name == "depth") return Value(1);
  if (name == "depth0") return Value(0);
  if (name == "previtem") return item(index_ - 1, "there is no previous item");
  if (name == "nextitem") return item(index_ + 1, "there is no next item");
  if (name == "cycle") return bound(call_cycle);
  if (name == "changed") return bound(call_changed);
  return std::nullopt;
}

}  // namespace mneme::jinja
