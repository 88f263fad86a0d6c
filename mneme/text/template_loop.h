#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mneme/text/template_object.h"

namespace mneme::jinja {

/// `loop` inside of a {% for %}: where it is in its items.
class Loop final : public Object, public std::enable_shared_from_this<Loop> {
 public:
  explicit Loop(std::vector<Value> items) : items_(std::move(items)) {}

  /// Moves to the next item, the first one at first; false behind the last.
  bool next() { return static_cast<std::size_t>(++index_) < items_.size(); }
  const Value& item() const { return items_[static_cast<std::size_t>(index_)]; }

  /// loop.changed(...): whether the values differ from those of the call before.
  bool changed(Run& run, std::vector<Value> values);
  std::int64_t index() const { return index_; }

  std::string type_name() const override { return "LoopContext"; }
  std::string repr(Run& run) const override;
  std::optional<Value> attribute(Run& run, std::string_view name) override;
  std::optional<std::size_t> length() const override { return items_.size(); }

 private:
  std::vector<Value> items_;
  std::int64_t index_ = -1;
  std::optional<Value> last_changed_;
};

}  // namespace mneme::jinja
