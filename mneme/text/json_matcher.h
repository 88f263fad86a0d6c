#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "mneme/text/json_schema.h"

namespace mneme {

/// Says byte by byte which texts begin a value that matches a schema: an automaton with a stack, made deterministic as
/// it is used. A state is a set of stacks; states and the steps between them are kept, so that a step costs a look-up,
/// and forgotten when they take much memory. Whoever holds states uses forget() between texts. One thread at a time.
class JsonMatcher {
 public:
  using State = std::int32_t;
  static constexpr State kDead = -1;  ///< no text that goes on from here matches

  /// The schema must outlive it.
  explicit JsonMatcher(const JsonSchema& schema);

  State start();
  /// The state behind one more byte, UTF-8. Every state but kDead leads to a text that matches.
  State next(State state, std::uint8_t byte) {
    const State known = steps_[static_cast<std::size_t>(state)][byte];
    return known == kUnknown ? step(state, byte) : known;
  }
  /// Whether the text may end here.
  bool complete(State state) const { return complete_[static_cast<std::size_t>(state)]; }

  /// Whether so many states are known that it is time to forget them; then start() begins anew and no earlier state is
  /// one any more.
  bool is_full() const noexcept { return steps_.size() > kMostStates || n_stacks_ > 16 * kMostStates; }
  void forget();

 private:
  static constexpr State kUnknown = -2;
  static constexpr std::size_t kMostStates = 1 << 14;  // of 1 KiB each

  /// Where in a node a text is, on top of what surrounds it. Equal frames have one index.
  struct Frame {
    std::uint32_t node = 0;
    std::uint8_t place = 0, blanks = 0;  // within the node; blanks in a row
    std::uint16_t depth = 0;             // frames below
    std::int64_t count = 0;              // characters, digits, items, the next property, the value so far
    std::uint32_t below = 0;             // frame 0 is the end
    friend auto operator<=>(const Frame&, const Frame&) = default;
  };
  using Stacks = std::vector<std::uint32_t>;

  State step(State state, std::uint8_t byte);
  State state_of(Stacks stacks);
  std::uint32_t index_of(const Frame& frame);

  // What a frame becomes behind a byte, into `out`; nothing where it cannot go on.
  void advance(const Frame& frame, std::uint8_t byte, Stacks& out);
  void begin(const Frame& frame, std::uint8_t byte, Stacks& out);
  void literal(const Frame& frame, std::uint8_t byte, Stacks& out);
  void string(const Frame& frame, std::uint8_t byte, Stacks& out);
  void number(const Frame& frame, std::uint8_t byte, Stacks& out);
  void integer_within(const Frame& frame, std::uint8_t byte, Stacks& out);
  void array(const Frame& frame, std::uint8_t byte, Stacks& out);
  void object(const Frame& frame, std::uint8_t byte, Stacks& out);

  void put(Frame frame, std::uint8_t place, std::int64_t count, Stacks& out);
  void put_child(Frame frame, std::uint8_t place, std::int64_t count, std::uint32_t child, std::uint8_t byte,
                 Stacks& out);
  bool fits(const Frame& parent, std::uint32_t child) const;
  std::uint32_t item(const JsonSchemaNode& array, std::int64_t index) const;
  template <class Visit>
  void for_each_key(const Frame& frame, const Visit& visit) const;
  const JsonSchemaNode& node(const Frame& frame) const { return schema_.nodes()[frame.node]; }

  const JsonSchema& schema_;
  std::vector<Frame> frames_;
  std::map<Frame, std::uint32_t> frame_indices_;
  std::vector<Stacks> states_;
  std::map<Stacks, State> state_indices_;
  std::vector<std::array<State, 256>> steps_;
  std::vector<bool> complete_;
  std::size_t n_stacks_ = 0;  // of all states
};

}  // namespace mneme
