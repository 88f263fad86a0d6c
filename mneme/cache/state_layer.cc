#include "mneme/cache/state_layer.h"

#include <algorithm>
#include <iterator>

#include "mneme/base/error.h"
#include "mneme/kernels/kernels.h"

namespace mneme {
namespace {

using kernels::kBlockTokens;

std::int64_t blocks_of(std::int64_t tokens) { return (tokens + kBlockTokens - 1) / kBlockTokens; }

float* floats(const BlockRef& block) { return reinterpret_cast<float*>(block.data()); }

/// The first multiple of 64 behind a token count.
std::int64_t next_snapshot(std::int64_t length) { return (length / kBlockTokens + 1) * kBlockTokens; }

/// Puts a block at entry b; entries that are not there yet hold nothing.
void put(BlockList& list, std::int64_t b, BlockRef block) {
  while (list.size() <= b) list.push_back(BlockRef());
  list.replace(b, std::move(block));
}

/// Where each state begins, on a border of 16 floats; at the end, where a next one would.
std::vector<std::int64_t> offsets_of(const StateShape& shape) {
  constexpr std::int64_t kMostFloats = std::int64_t{1} << 55;  // 64 tokens of so many bytes still fit 63 bits
  check(!shape.sizes.empty() && shape.input_width > 0 && shape.input_width <= kMostFloats, ErrorKind::kInvalidArgument,
        "a state layer of {} states whose tokens have {} inputs cannot be", shape.sizes.size(), shape.input_width);
  std::vector<std::int64_t> offsets{0};
  for (const std::int64_t size : shape.sizes) {
    check(size >= 0 && size <= kMostFloats - offsets.back(), ErrorKind::kInvalidArgument,
          "a state of {} numbers behind others of {} cannot be", size, offsets.back());
    offsets.push_back(kernels::round_up(offsets.back() + size, 16));
  }
  check(offsets.back() > 0, ErrorKind::kInvalidArgument, "a state layer of no numbers cannot be");
  return offsets;
}

/// Whether a block may be written to: nobody else holds it, and it is no part of a file.
bool writable(const BlockRef& block, const BlockPool& pool) { return block.unique() && block.pool() == &pool; }
bool writable(const BlockList& list, std::int64_t b, const BlockPool& pool) {
  return b < list.size() && list.owns(b) && list.at(b).pool() == &pool;
}

}  // namespace

void StateLayer::Plan::clear() noexcept {
  runs.clear();
  marks.clear();
  first_marks.clear();
  held.clear();
}

/// The marks of the run come next.
void StateLayer::Plan::add(std::int64_t first_row, std::int64_t n_rows, BlockRef before) {
  runs.push_back({.before = floats(before), .first_row = first_row, .n_rows = n_rows, .marks = {}});
  first_marks.push_back(marks.size());
  held.push_back(std::move(before));
}

std::span<const ops::StateRun> StateLayer::Plan::spans() {
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::size_t end = i + 1 < runs.size() ? first_marks[i + 1] : marks.size();
    runs[i].marks = std::span(marks).subspan(first_marks[i], end - first_marks[i]);
  }
  return runs;
}

StateLayer::Plan& StateLayer::plan() {
  thread_local Plan plan;
  return plan;
}

StateLayer::StateLayer(StateShape shape, at::Device device, std::shared_ptr<BlockPool> states,
                       std::shared_ptr<BlockPool> inputs)
    : shape_(std::move(shape)),
      offsets_(offsets_of(shape_)),
      device_(device),
      states_(std::move(states)),
      inputs_(std::move(inputs)) {}

StateLayer& StateLayer::operator=(StateLayer other) noexcept {
  std::swap(shape_, other.shape_);
  std::swap(offsets_, other.offsets_);
  std::swap(device_, other.device_);
  std::swap(states_, other.states_);
  std::swap(inputs_, other.inputs_);
  std::swap(adopted_, other.adopted_);
  std::swap(sequences_, other.sequences_);
  std::swap(recording_, other.recording_);
  return *this;
}

std::int64_t StateLayer::state_bytes(const StateShape& shape) {
  return offsets_of(shape).back() * static_cast<std::int64_t>(sizeof(float));
}

std::int64_t StateLayer::input_bytes(const StateShape& shape) {
  offsets_of(shape);
  return kBlockTokens * shape.input_width * static_cast<std::int64_t>(sizeof(float));
}

at::Tensor StateLayer::state(std::int64_t i, std::size_t k) const {
  const auto options = at::TensorOptions().dtype(at::kFloat).device(device_);
  const BlockRef& states = sequence(i).states;
  return states ? at::from_blob(floats(states) + offsets_[k], {shape_.sizes[k]}, options).clone()
                : at::zeros({shape_.sizes[k]}, options);
}

void StateLayer::reset() noexcept {
  sequences_.clear();
  adopted_.clear();
  recording_ = false;
}

StateLayer::Blocks StateLayer::blocks_needed(std::span<const std::int64_t> counts) const {
  Blocks total;
  const StateSequence empty;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    const StateSequence& s = i < sequences_.size() ? sequences_[i] : empty;
    const std::int64_t end = s.length + counts[i], b = s.length / kBlockTokens;
    const bool replayed = s.computed < s.length;
    if (replayed) ++total.states;
    if (replayed || !s.states || !writable(s.states, *states_)) ++total.states;
    if (!recording_) continue;
    total.states += (end - 1) / kBlockTokens - b;  // snapshots before the last token; after it the states are one
    total.inputs += blocks_of(end) - b - (writable(s.inputs, b, *inputs_) ? 1 : 0);
  }
  return total;
}

void StateLayer::check_rows(std::span<const std::int64_t> row_starts, const ops::Rows& inputs) const {
  check(row_starts.size() == sequences_.size() + 1, ErrorKind::kInvalidArgument,
        "cache: {} sequences were given to a layer that holds {}", row_starts.size() - 1, sequences_.size());
  check(inputs.width >= shape_.input_width, ErrorKind::kInvalidArgument,
        "cache: rows of {} were given to a state layer whose tokens have {} inputs", inputs.width, shape_.input_width);
}

float* StateLayer::input_row(const StateSequence& s, std::int64_t token) const {
  return floats(s.inputs.at(token / kBlockTokens)) + token % kBlockTokens * shape_.input_width;
}

/// Takes inputs that a crop left to be replayed through the recurrence: plans runs over rows gathered from the record.
ops::Rows StateLayer::plan_replay(ops::Workspace& workspace, std::span<const std::int64_t> row_starts) {
  plan().clear();
  ops::Rows past{.data = nullptr, .n = 0, .width = shape_.input_width};
  const auto replays = [&](std::size_t i) { return row_starts[i + 1] > row_starts[i]; };
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    if (replays(i)) past.n += sequences_[i].length - sequences_[i].computed;
  }
  if (past.n == 0) return past;
  past.data = workspace.floats(past.n * past.width);
  std::int64_t row = 0;
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    StateSequence& s = sequences_[i];
    if (!replays(i) || s.computed == s.length) continue;
    for (std::int64_t t = s.computed; t < s.length; ++t) {
      ops::copy(workspace, {input_row(s, t), 1, past.width}, {past.row(row + t - s.computed), 1, past.width});
    }
    const std::int64_t n = s.length - s.computed, first_block = s.computed / kBlockTokens;
    BlockRef after = s.states ? states_->take() : states_->take_zeroed();
    BlockRef before = s.states ? s.states : after;  // before the first token: zeros
    plan().add(row, n, std::move(before));
    plan().marks.push_back({.n_rows = n, .states = floats(after)});
    s.states = std::move(after);
    s.computed = s.length;
    s.keep();
    for (std::int64_t b = first_block; b < s.length / kBlockTokens; ++b) s.inputs.release(b);
    row += n;
  }
  return past;
}

/// Keeps the inputs of n tokens behind the last one, in blocks that nobody else holds.
void StateLayer::record(ops::Workspace& workspace, StateSequence& s, const ops::Rows& inputs, std::int64_t first_row,
                        std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t token = s.length + i, b = token / kBlockTokens;
    if (i == 0 || token % kBlockTokens == 0) {
      if (b >= s.inputs.size() || !s.inputs.at(b)) {
        put(s.inputs, b, inputs_->take());
      } else if (!writable(s.inputs, b, *inputs_)) {
        s.inputs.replace(b, inputs_->take_copy(s.inputs.at(b)));
      }
    }
    ops::copy(workspace, {inputs.row(first_row + i), 1, shape_.input_width},
              {input_row(s, token), 1, shape_.input_width});
  }
}

void StateLayer::plan_append(ops::Workspace& workspace, std::span<const std::int64_t> row_starts,
                             const ops::Rows& inputs) {
  plan().clear();
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    StateSequence& s = sequences_[i];
    const std::int64_t n = row_starts[i + 1] - row_starts[i], end = s.length + n;
    if (n == 0) continue;
    BlockRef after = !s.states                      ? states_->take_zeroed()  // before the first token: zeros
                     : writable(s.states, *states_) ? s.states
                                                    : states_->take();
    plan().add(row_starts[i], n, s.states ? s.states : after);
    if (recording_) {
      record(workspace, s, inputs, row_starts[i], n);
      for (std::int64_t m = next_snapshot(s.length); m < end; m += kBlockTokens) {
        BlockRef snapshot = states_->take();
        plan().marks.push_back({.n_rows = m - s.length, .states = floats(snapshot)});
        put(s.snapshots, m / kBlockTokens, std::move(snapshot));
      }
      if (end % kBlockTokens == 0) put(s.snapshots, end / kBlockTokens, after);
    }
    plan().marks.push_back({.n_rows = n, .states = floats(after)});
    s.states = std::move(after);
    s.length = s.computed = end;
  }
}

void StateLayer::activate_past_recording() {
  if (std::exchange(recording_, true)) return;
  for (StateSequence& s : sequences_) s.keep();
}

void StateLayer::check_crop(const StateSequence& s, std::int64_t n) const {
  check(n <= s.length, ErrorKind::kInvalidArgument, "crop: {} tokens cannot be removed from a cache that holds {}", n,
        s.length);
  const std::int64_t recorded = recording_ ? s.length - s.first_recorded : 0;
  check(n <= recorded, ErrorKind::kFailedPrecondition,
        "crop: a recurrent state of {} tokens cannot take back {}, the last {} are recorded; call "
        "activate_past_recording() before the forward pass",
        s.length, n, recorded);
}

void StateLayer::check_crop(std::int64_t n) const {
  for (const StateSequence& s : sequences_) check_crop(s, n);
}

void StateLayer::shorten(std::int64_t i, std::int64_t length) {
  StateSequence& s = sequences_[static_cast<std::size_t>(i)];
  if (s.length <= length) return;
  check_crop(s, s.length - length);
  s.crop(s.length - length);
}

void StateLayer::crop(std::int64_t n) {
  if (!recording_) return;
  for (StateSequence& s : sequences_) s.crop(n);
}

std::int64_t StateLayer::exact_length(std::int64_t i, std::int64_t length) const {
  const StateSequence& s = sequence(i);
  if (length >= s.length) return s.length;
  return recording_ && length >= s.first_recorded ? length : 0;
}

void StateLayer::restore(std::vector<StateSequence> sequences, std::vector<std::shared_ptr<BlockPool>> pools,
                         bool recording) {
  sequences_ = std::move(sequences);
  adopted_ = std::move(pools);
  recording_ = recording;
}

void StateLayer::select(std::span<const std::int64_t> indices) {
  std::vector<StateSequence> selected;
  selected.reserve(indices.size());
  for (const std::int64_t i : indices) selected.push_back(sequences_[static_cast<std::size_t>(i)]);
  sequences_ = std::move(selected);
}

void StateLayer::add(StateLayer other) {
  if (adopted_.empty()) adopted_ = other.adopted_;
  std::ranges::move(other.sequences_, std::back_inserter(sequences_));
}

void StateLayer::move_to(const StateLayer& other) {
  BlockCopies copies;
  std::vector<StateSequence> moved;
  moved.reserve(sequences_.size());
  for (const StateSequence& s : sequences_) moved.push_back(s.copied_to(*other.states_, *other.inputs_, copies));
  sequences_ = std::move(moved);  // before their pools
  states_ = other.states_;
  inputs_ = other.inputs_;
  adopted_.clear();
}

}  // namespace mneme
