#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "mneme/cache/block_pool.h"
#include "mneme/cache/state_sequence.h"
#include "mneme/cache/state_shape.h"
#include "mneme/ops/state_run.h"
#include "mneme/ops/workspace.h"

namespace mneme {

/// The states of one recurrent or convolutional layer: for each sequence one block that holds all of them, float32, the
/// same size at any length.
///
/// Copying a layer shares all blocks; states that are shared are written anew by the side that moves on.
///
/// A state cannot be taken back, so a crop needs a recorded past: the inputs of the tokens since, and the states as
/// they were where the past begins and after every 64th token. A crop goes back to the states kept last before its end;
/// the next advance() first takes the inputs from there through the recurrence again. Tokens have one order and one
/// result, so those are the bits of a run that never went further.
class StateLayer {
 public:
  /// Blocks of `states` and `inputs` must be of state_bytes(shape) and input_bytes(shape).
  StateLayer(StateShape shape, at::Device device, std::shared_ptr<BlockPool> states, std::shared_ptr<BlockPool> inputs);
  StateLayer(const StateLayer&) = default;
  StateLayer(StateLayer&&) noexcept = default;
  /// By swapping: the old blocks must go before the pools that they go back to.
  StateLayer& operator=(StateLayer other) noexcept;

  /// Bytes of the states of one sequence, each state on a border of 64 bytes. Throws Error(kInvalidArgument) unless
  /// there is a state, sizes are not negative (and not all zero), the input width is positive, and all fits 63 bits.
  static std::int64_t state_bytes(const StateShape& shape);
  /// Bytes of the recorded inputs of 64 tokens. Throws as state_bytes does.
  static std::int64_t input_bytes(const StateShape& shape);

  const StateShape& shape() const noexcept { return shape_; }
  /// Floats from the beginning of a sequence's states to state k.
  std::int64_t offset(std::size_t k) const { return offsets_[k]; }
  std::int64_t n_sequences() const noexcept { return static_cast<std::int64_t>(sequences_.size()); }
  std::int64_t length(std::int64_t i) const { return sequence(i).length; }
  /// Tokens that the states have seen: fewer than length() after a crop, until the next advance.
  std::int64_t computed(std::int64_t i) const { return sequence(i).computed; }
  const StateSequence& sequence(std::int64_t i) const { return sequences_[static_cast<std::size_t>(i)]; }
  /// State k of a sequence after computed() tokens, float32 [sizes[k]], a copy.
  at::Tensor state(std::int64_t i, std::size_t k) const;

  /// Starts with this many empty sequences.
  void start(std::int64_t n_sequences) { sequences_.resize(static_cast<std::size_t>(n_sequences)); }
  /// As new: no sequences, no recording.
  void reset() noexcept;

  /// Blocks that appending `counts[i]` tokens to sequence i may take from the pools at most.
  struct Blocks {
    std::int64_t states = 0, inputs = 0;
  };
  Blocks blocks_needed(std::span<const std::int64_t> counts) const;

  /// Appends the tokens of rows [row_starts[i], row_starts[i + 1]) to sequence i.
  ///
  /// inputs  rows [N, >= input_width]: the first input_width columns are what a recorded past keeps
  /// out     rows [N, ..] for what the recurrence gives
  /// run     run(std::span<const ops::StateRun>, const ops::Rows& inputs, const ops::Rows& out) moves the states from
  ///         each run's `before` to its marks, and writes `out`. It is called once more, before, to take back what a
  ///         crop left: then inputs are [M, input_width] and out has no data. It must not throw.
  ///
  /// Throws Error(kInvalidArgument) for another number of sequences or narrower rows.
  template <class Run>
  void advance(ops::Workspace& workspace, std::span<const std::int64_t> row_starts, const ops::Rows& inputs,
               const ops::Rows& out, Run&& run) {
    const ops::Workspace::Scope scope(workspace);
    check_rows(row_starts, inputs);
    if (const ops::Rows past = plan_replay(workspace, row_starts); past.n > 0) run(plan().spans(), past, ops::Rows{});
    plan_append(workspace, row_starts, inputs);
    if (!plan().runs.empty()) run(plan().spans(), inputs, out);
    plan().clear();
  }

  /// From now on a crop can go back to any token that comes, and to here.
  void activate_past_recording();
  bool recording() const noexcept { return recording_; }

  /// Throws unless `crop(n)` would work: Error(kInvalidArgument) if n is above a length, Error(kFailedPrecondition) if
  /// fewer than n tokens are recorded.
  void check_crop(std::int64_t n) const;
  /// Removes the last n tokens of every sequence, and what was recorded. check_crop(n) must hold.
  void crop(std::int64_t n);
  /// The same for one sequence, down to `length` tokens if it has more.
  void shorten(std::int64_t i, std::int64_t length);

  /// The longest length up to `length` that a crop of sequence i would leave just as one that never was longer; 0 if
  /// there is none.
  std::int64_t exact_length(std::int64_t i, std::int64_t length) const;

  /// Becomes what was saved: sequences without fault, and the pools of their blocks.
  void restore(std::vector<StateSequence> sequences, std::vector<std::shared_ptr<BlockPool>> pools, bool recording);

  /// Sequence i becomes a copy of what sequence indices[i] is. Shares blocks.
  void select(std::span<const std::int64_t> indices);

  /// Adds the sequences of a layer of the same kind and the same pools behind those that are here. Shares blocks.
  void add(StateLayer other);

  /// From now on the layer is of the pools of another one of the same kind: copies every block, each once. Throws
  /// Error(kOutOfMemory); nothing changes then.
  void move_to(const StateLayer& other);

  /// Calls f(block) for every block that a sequence holds, of either pool; shared ones come more than once.
  template <class F>
  void each_block(F&& f) const {
    for (const StateSequence& s : sequences_) {
      for (const BlockRef* block : {&s.states, &s.kept}) {
        if (*block) f(*block);
      }
      s.snapshots.each_block(f);
      s.inputs.each_block(f);
    }
  }

 private:
  void check_crop(const StateSequence& sequence, std::int64_t n) const;
  /// Runs of one call, the blocks that they read, and room for them that is kept from call to call.
  struct Plan {
    std::vector<ops::StateRun> runs;
    std::vector<ops::StateMark> marks;
    std::vector<std::size_t> first_marks;
    std::vector<BlockRef> held;

    void clear() noexcept;
    void add(std::int64_t first_row, std::int64_t n_rows, BlockRef before);
    std::span<const ops::StateRun> spans();
  };
  static Plan& plan();

  float* input_row(const StateSequence& sequence, std::int64_t token) const;
  void record(ops::Workspace& workspace, StateSequence& sequence, const ops::Rows& inputs, std::int64_t first_row,
              std::int64_t n);
  void check_rows(std::span<const std::int64_t> row_starts, const ops::Rows& inputs) const;
  ops::Rows plan_replay(ops::Workspace& workspace, std::span<const std::int64_t> row_starts);
  void plan_append(ops::Workspace& workspace, std::span<const std::int64_t> row_starts, const ops::Rows& inputs);

  StateShape shape_;
  std::vector<std::int64_t> offsets_;
  at::Device device_;
  std::shared_ptr<BlockPool> states_, inputs_;       // before the sequences: blocks go back to them
  std::vector<std::shared_ptr<BlockPool>> adopted_;  // of blocks that came from a file
  std::vector<StateSequence> sequences_;
  bool recording_ = false;
};

}  // namespace mneme
