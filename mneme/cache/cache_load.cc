#include <algorithm>
#include <cstring>

#include "mneme/base/checksum.h"
#include "mneme/base/error.h"
#include "mneme/cache/cache.h"
#include "mneme/cache/cache_file.h"

namespace mneme {
namespace {

using Tensor = SafetensorsFile::Tensor;

/// The tensors of one layer. Nothing in the file is trusted: every number is checked before it is used.
class LayerReader {
 public:
  LayerReader(const SafetensorsFile& file, const std::map<std::string, const Tensor*>& tensors, std::size_t layer)
      : file_(file), tensors_(tensors), name_("layer." + std::to_string(layer)) {}

  /// Blocks of a table, which must be of so many bytes each. They stay where they are in the file.
  std::vector<BlockRef> blocks(const char* table, std::int64_t block_bytes,
                               std::vector<std::shared_ptr<BlockPool>>& pools) const {
    const Tensor& tensor = at(table, "U8", 2);
    const std::int64_t n = tensor.shape[0];
    require(tensor.shape[1] == block_bytes, "{} has blocks of {} bytes, this cache has blocks of {}", table,
            tensor.shape[1], block_bytes);
    check_bytes(table, tensor);
    if (n == 0) return {};
    auto pool = std::make_shared<BlockPool>(block_bytes, std::make_shared<MappedTier>(), nullptr);
    // The map is private: a block that is written to becomes memory of this process.
    auto blocks = pool->adopt(
        {.data = const_cast<std::byte*>(tensor.data.data()), .n_bytes = n * block_bytes, .owner = file_.file()}, n);
    pools.push_back(std::move(pool));
    return blocks;
  }

  std::vector<KvSequence> sequences(const KvStorage& storage, const std::vector<BlockRef>& raw,
                                    const std::vector<BlockRef>& sealed, const std::vector<BlockRef>& first) {
    read_numbers("sequences");
    std::vector<KvSequence> result;
    while (next_ < numbers_.size()) {
      KvSequence::Parts parts;
      parts.length = number(0, kMostTokens, "a length");
      parts.first_held = number(0, parts.length, "a first held token");
      parts.stale_tail = number(0, 1, "a flag") != 0;
      const std::int64_t n_raw = number(0, std::ssize(numbers_), "a number of blocks");
      for (std::int64_t b = 0; b < n_raw; ++b) parts.raw.push_back(block(raw));
      const std::int64_t n_sealed = number(0, std::ssize(numbers_), "a number of blocks");
      for (std::int64_t b = 0; b < n_sealed; ++b) parts.sealed.push_back(block(b == 0 ? first : sealed));
      const std::string fault = KvSequence::fault_of(storage, parts);
      require(fault.empty(), "sequence {} {}", result.size(), fault);
      result.emplace_back(storage, std::move(parts));
    }
    return result;
  }

  std::vector<StateSequence> state_sequences(const std::vector<BlockRef>& states, const std::vector<BlockRef>& inputs,
                                             bool recording) {
    read_numbers("state_sequences");
    std::vector<StateSequence> result;
    while (next_ < numbers_.size()) {
      StateSequence s;
      s.length = number(0, kMostTokens, "a length");
      s.computed = number(0, s.length, "a number of computed tokens");
      s.first_kept = number(0, s.length, "a kept token");
      s.first_recorded = number(0, s.length, "a recorded token");
      s.states = block(states);
      s.kept = block(states);
      const std::int64_t n_snapshots = number(0, std::ssize(numbers_), "a number of blocks");
      for (std::int64_t b = 0; b < n_snapshots; ++b) s.snapshots.push_back(block(states));
      const std::int64_t n_inputs = number(0, std::ssize(numbers_), "a number of blocks");
      for (std::int64_t b = 0; b < n_inputs; ++b) s.inputs.push_back(block(inputs));
      const std::string fault = s.fault(recording);
      require(fault.empty(), "sequence {} {}", result.size(), fault);
      result.push_back(std::move(s));
    }
    return result;
  }

 private:
  static constexpr std::int64_t kMostTokens = std::int64_t{1} << 53;

  /// Every block is read once, here.
  void check_bytes(const std::string& table, const Tensor& blocks) const {
    const Tensor& sums = at((table + ".checksums").c_str(), "I64", 1);
    const std::int64_t n = blocks.shape[0], block_bytes = blocks.shape[1];
    require(sums.shape[0] == n, "there are {} checksums of {} blocks in {}", sums.shape[0], n, table);
    for (std::int64_t b = 0; b < n; ++b) {
      std::int64_t sum = 0;
      std::memcpy(&sum, sums.data.data() + b * 8, sizeof sum);
      const auto bytes =
          blocks.data.subspan(static_cast<std::size_t>(b * block_bytes), static_cast<std::size_t>(block_bytes));
      require(sum == checksum(bytes), "block {} of {} is damaged: its checksum is another", b, table);
    }
  }

  /// The I64 numbers of a tensor, to be taken one by one.
  void read_numbers(const char* table) {
    const Tensor& tensor = at(table, "I64", 1);
    numbers_.resize(tensor.data.size() / sizeof(std::int64_t));
    if (!numbers_.empty()) std::memcpy(numbers_.data(), tensor.data.data(), tensor.data.size());
    next_ = 0;
  }

  template <class... Args>
  void require(bool right, fmt::format_string<Args...> format, Args&&... args) const {
    if (!right)
      throw Error(ErrorKind::kCorruptData, "{}: {}: {}", file_.name(), name_,
                  fmt::format(format, std::forward<Args>(args)...));
  }

  const Tensor& at(const char* table, const char* dtype, std::size_t n_dims) const {
    const auto it = tensors_.find(name_ + "." + table);
    require(it != tensors_.end(), "the tensor {} is missing", table);
    const Tensor& tensor = *it->second;
    require(tensor.dtype == dtype && tensor.shape.size() == n_dims,
            "{} must be {} with {} dimensions, it is {} with {}", table, dtype, n_dims, tensor.dtype,
            tensor.shape.size());
    return tensor;
  }

  std::int64_t number(std::int64_t least, std::int64_t most, const char* what) {
    require(next_ < numbers_.size(), "the list of blocks ends within a sequence");
    const std::int64_t value = numbers_[next_++];
    require(value >= least && value <= most, "{} is {}, it must be {} to {}", what, value, least, most);
    return value;
  }

  BlockRef block(const std::vector<BlockRef>& table) {
    const std::int64_t index = number(-1, std::ssize(table) - 1, "the index of a block");
    return index < 0 ? BlockRef() : table[static_cast<std::size_t>(index)];
  }

  const SafetensorsFile& file_;
  const std::map<std::string, const Tensor*>& tensors_;
  const std::string name_;
  std::vector<std::int64_t> numbers_;
  std::size_t next_ = 0;
};

void check_same_shape(const CacheShape& saved, const CacheShape& wanted, const std::string& name) {
  check(saved.layers.size() == wanted.layers.size(), ErrorKind::kInvalidArgument,
        "{}: a cache of {} layers, the model has {}; it was saved for another model", name, saved.layers.size(),
        wanted.layers.size());
  for (std::size_t i = 0; i < saved.layers.size(); ++i) {
    const LayerShape &a = saved.layers[i], &b = wanted.layers[i];
    check(a.n_heads == b.n_heads && a.key_dim == b.key_dim && a.value_dim == b.value_dim && a.retention == b.retention,
          ErrorKind::kInvalidArgument,
          "{}: layer {} holds {} heads of {} and {} and keeps {}, the model's has {} of {} and {} and keeps {}; it was "
          "saved for another model",
          name, i, a.n_heads, a.key_dim, a.value_dim, a.retention.name(), b.n_heads, b.key_dim, b.value_dim,
          b.retention.name());
    check(a.state == b.state, ErrorKind::kInvalidArgument,
          "{}: layer {} has states of another size than the model's; it was saved for another model", name, i);
  }
}

std::vector<KvSequence> read_attention(LayerReader& reader, KvStorage& storage) {
  std::vector<std::shared_ptr<BlockPool>>& pools = storage.adopted_pools;
  const std::vector<BlockRef> raw = reader.blocks("raw", storage.layout.block_bytes(), pools);
  std::vector<BlockRef> sealed, first;
  if (storage.seals()) {
    sealed = reader.blocks("sealed", storage.sealed_pool->block_bytes(), pools);
    first = reader.blocks("first", storage.first_pool->block_bytes(), pools);
  }
  return reader.sequences(storage, raw, sealed, first);
}

std::vector<StateSequence> read_states(LayerReader& reader, const StateShape& shape, bool recording,
                                       std::vector<std::shared_ptr<BlockPool>>& pools) {
  const std::vector<BlockRef> states = reader.blocks("states", StateLayer::state_bytes(shape), pools);
  const std::vector<BlockRef> inputs = reader.blocks("inputs", StateLayer::input_bytes(shape), pools);
  return reader.state_sequences(states, inputs, recording);
}

}  // namespace

Cache Cache::load(const std::string& path, const CacheShape& shape, const CacheLoadOptions& options) {
  const SafetensorsFile file(path, MappedFile::Access::kPrivate);
  CacheFileInfo info = CacheFileInfo::read(file);
  check_same_shape(info.shape, shape, path);
  check(options.model.empty() || info.model.empty() || options.model == info.model, ErrorKind::kInvalidArgument,
        "{}: saved for model \"{}\", this is \"{}\"; read the text again with this one", path, info.model,
        options.model);
  if (options.offload_folder) info.options.config.offload_folder = options.offload_folder;
  std::map<std::string, const Tensor*> tensors;
  for (const Tensor& tensor : file.tensors()) tensors[tensor.name] = &tensor;

  Cache cache(shape, info.options);
  std::optional<std::vector<std::int64_t>> lengths;
  const auto check_lengths = [&](std::size_t l, const auto& layer) {
    std::vector<std::int64_t> here;
    for (std::int64_t i = 0; i < layer.n_sequences(); ++i) here.push_back(layer.length(i));
    if (!lengths) lengths = here;
    check(here == *lengths, ErrorKind::kCorruptData, "{}: layer {} holds sequences of [{}] tokens, layer 0 of [{}]",
          path, l, fmt::join(here, ", "), fmt::join(*lengths, ", "));
  };
  const bool stays_in_file = options.map && shape.device.is_cpu();
  for (std::size_t l = 0; l < cache.layers_.size(); ++l) {
    LayerReader reader(file, tensors, l);
    CacheLayer layer = cache.layers_[l];
    if (layer.has_attention()) {
      KvStorage storage = layer.attention().storage();
      std::vector<KvSequence> sequences = read_attention(reader, storage);
      layer.attention().restore(std::move(storage), std::move(sequences), info.recording);
      check_lengths(l, layer.attention());
    }
    if (layer.has_state()) {
      std::vector<std::shared_ptr<BlockPool>> pools;
      std::vector<StateSequence> sequences = read_states(reader, layer.state().shape(), info.recording, pools);
      layer.state().restore(std::move(sequences), std::move(pools), info.recording);
      check_lengths(l, layer.state());
    }
    if (!stays_in_file) layer.move_to(cache.layers_[l]);
    cache.layers_[l] = std::move(layer);
  }
  if (info.options.max_cache_len) {
    for (const std::int64_t length : *lengths) {
      check(length <= *info.options.max_cache_len, ErrorKind::kCorruptData,
            "{}: a sequence of {} tokens in a static cache of {}", path, length, *info.options.max_cache_len);
    }
    if (!lengths->empty()) cache.reserve_rows(std::ssize(*lengths));
  }
  return cache;
}

}  // namespace mneme
