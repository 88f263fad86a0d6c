#include <map>
#include <memory>
#include <unordered_map>

#include "mneme/base/checksum.h"
#include "mneme/base/error.h"
#include "mneme/base/safetensors_writer.h"
#include "mneme/cache/cache.h"
#include "mneme/cache/cache_file.h"

namespace mneme {
namespace {

std::span<const std::byte> bytes_of(const std::vector<std::int64_t>& numbers) {
  return std::as_bytes(std::span(numbers));
}

/// Blocks of one size in the order in which they are first met, each once. Their bytes are read, wherever they lie, one
/// block at a time as the file is written.
class BlockTable {
 public:
  explicit BlockTable(std::int64_t block_bytes) : block_bytes_(block_bytes) {}

  std::int64_t index_of(const BlockRef& block) {
    if (!block) return -1;
    const auto [it, is_new] = indices_.try_emplace(block.get(), std::ssize(blocks_));
    if (is_new) blocks_.push_back(block);
    return it->second;
  }
  void add_to(SafetensorsWriter& writer, const std::string& name) {
    const std::int64_t n = std::ssize(blocks_);
    // Known when the blocks have been written, and written behind them.
    const auto sums = std::make_shared<std::vector<std::int64_t>>(blocks_.size());
    writer.add_rows(name, n, block_bytes_,
                    [blocks = std::move(blocks_), sums](std::int64_t i, std::span<std::byte> out) {
                      const BlockRef& block = blocks[static_cast<std::size_t>(i)];
                      block.pool()->tier().read(out.data(), at::kCPU, block.data(), std::ssize(out));
                      (*sums)[static_cast<std::size_t>(i)] = checksum(out);
                    });
    writer.add(name + ".checksums", "I64", {n}, {bytes_of(*sums)});
  }

 private:
  const std::int64_t block_bytes_;
  std::unordered_map<const Block*, std::int64_t> indices_;
  std::vector<BlockRef> blocks_;
};

/// Adds the blocks of a layer to the file; gives the numbers of its sequences.
std::vector<std::int64_t> add_blocks(SafetensorsWriter& writer, const std::string& name, const KvLayer& layer) {
  const KvStorage& storage = layer.storage();
  BlockTable raw(layer.layout().block_bytes()), sealed(storage.seals() ? storage.sealed_pool->block_bytes() : 0),
      first(storage.seals() ? storage.first_pool->block_bytes() : 0);
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = 0; i < layer.n_sequences(); ++i) {
    const KvSequence& s = layer.sequence(i);
    numbers.insert(numbers.end(), {s.length(), s.first_held(), s.stale_tail(), s.raw().size()});
    for (std::int64_t b = 0; b < s.raw().size(); ++b) numbers.push_back(raw.index_of(s.raw().at(b)));
    numbers.push_back(s.n_sealed());
    for (std::int64_t b = 0; b < s.n_sealed(); ++b)
      numbers.push_back((b == 0 ? first : sealed).index_of(s.sealed().at(b)));
  }
  // Encoded blocks first: their bytes are multiples of 64, so that each of them begins at one.
  sealed.add_to(writer, name + ".sealed");
  first.add_to(writer, name + ".first");
  raw.add_to(writer, name + ".raw");
  return numbers;
}

std::vector<std::int64_t> add_blocks(SafetensorsWriter& writer, const std::string& name, const StateLayer& layer) {
  BlockTable states(StateLayer::state_bytes(layer.shape())), inputs(StateLayer::input_bytes(layer.shape()));
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = 0; i < layer.n_sequences(); ++i) {
    const StateSequence& s = layer.sequence(i);
    numbers.insert(numbers.end(), {s.length, s.computed, s.first_kept, s.first_recorded, states.index_of(s.states),
                                   states.index_of(s.kept), s.snapshots.size()});
    for (std::int64_t b = 0; b < s.snapshots.size(); ++b) numbers.push_back(states.index_of(s.snapshots.at(b)));
    numbers.push_back(s.inputs.size());
    for (std::int64_t b = 0; b < s.inputs.size(); ++b) numbers.push_back(inputs.index_of(s.inputs.at(b)));
  }
  states.add_to(writer, name + ".states");
  inputs.add_to(writer, name + ".inputs");
  return numbers;
}

}  // namespace

void Cache::save(const std::string& path, const CacheSaveOptions& options) const {
  check(options.token_ids.empty() || std::ssize(options.token_ids) == n_sequences(), ErrorKind::kInvalidArgument,
        "save: token ids of {} sequences were given with a cache that holds {}", options.token_ids.size(),
        n_sequences());
  SafetensorsWriter writer;
  CacheFileInfo info{.shape = shape_,
                     .options = options_,
                     .recording = layers_.front().recording(),
                     .model = options.model,
                     .token_ids = {}};
  info.shape.dtype = options_.dtype.value_or(shape_.dtype);
  info.options.dtype = info.shape.dtype;
  std::map<std::string, std::vector<std::int64_t>> lists;
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    const std::string name = "layer." + std::to_string(l);
    if (layers_[l].has_attention()) lists[name + ".sequences"] = add_blocks(writer, name, layers_[l].attention());
    if (layers_[l].has_state()) lists[name + ".state_sequences"] = add_blocks(writer, name, layers_[l].state());
  }
  for (std::size_t s = 0; s < options.token_ids.size(); ++s)
    lists["token_ids." + std::to_string(s)] = options.token_ids[s];
  CacheFileLists bytes;
  for (const auto& [name, numbers] : lists) {
    bytes[name] = bytes_of(numbers);
    writer.add(name, "I64", {std::ssize(numbers)}, {bytes[name]});
  }
  std::map<std::string, std::string> metadata = cache_file_metadata(info);
  metadata["checksum"] = cache_file_checksum(metadata, bytes);
  for (auto& [key, value] : metadata) writer.set(key, value);
  writer.write(path);
}

}  // namespace mneme
