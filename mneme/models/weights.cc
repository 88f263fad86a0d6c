#include "mneme/models/weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "mneme/base/checksum.h"
#include "mneme/base/error.h"
#include "mneme/base/gguf_file.h"
#include "mneme/base/json.h"
#include "mneme/base/printable.h"
#include "mneme/base/safetensors.h"
#include "mneme/models/gguf_names.h"

namespace mneme {
namespace {

std::optional<Storage> storage_of_dtype(std::string_view dtype) {
  if (dtype == "F32") return Storage::kFloat32;
  if (dtype == "BF16") return Storage::kBFloat16;
  if (dtype == "F16") return Storage::kFloat16;
  if (dtype == "F8_E4M3") return Storage::kFloat8E4M3;
  if (dtype == "F8_E5M2") return Storage::kFloat8E5M2;
  if (dtype == "U8") return Storage::kUInt8;
  return std::nullopt;
}

std::optional<Storage> storage_of_ggml_type(std::uint32_t type) {
  switch (type) {
    case 0: return Storage::kFloat32;
    case 1: return Storage::kFloat16;
    case 2: return Storage::kQ4_0;
    case 3: return Storage::kQ4_1;
    case 6: return Storage::kQ5_0;
    case 7: return Storage::kQ5_1;
    case 8: return Storage::kQ8_0;
    case 12: return Storage::kQ4_K;
    case 13: return Storage::kQ5_K;
    case 14: return Storage::kQ6_K;
    case 30: return Storage::kBFloat16;
    case 39: return Storage::kMXFP4;
    default: return std::nullopt;
  }
}

std::string ggml_type_name(std::uint32_t type) {
  const std::string name = ggml_type_info(type).name;
  return name.empty() ? fmt::format("ggml type {}", type) : name;
}

/// Tensors that say nothing of their own: old checkpoints hold RoPE tables, and ModelConfig reads rope factors.
bool is_derived(std::string_view name) {
  return name == "rope_freqs.weight" || name == "rope_factors_long.weight" || name == "rope_factors_short.weight" ||
         name.ends_with(".rotary_emb.inv_freq");
}

/// A shard lies in the index's folder; any other path could reach out of it.
void check_shard_name(const std::string& shard, const std::string& index) {
  const bool plain = !shard.empty() && shard != "." && shard != ".." && shard.find_first_of("/\\") == shard.npos &&
                     shard.find('\0') == shard.npos;
  check(plain, ErrorKind::kCorruptData, "{}: \"{}\" is not the name of a file in the same folder", index,
        printable(shard));
}

/// How a head's rows lie in a GGUF file: row 2k + i there is row i * half + k of the checkpoint's head.
std::vector<std::int32_t> rows_by_halves(std::int64_t n_rows, std::int64_t n_heads) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(n_rows));
  const std::int64_t head = n_rows / n_heads, half = head / 2;
  for (std::int64_t r = 0; r < n_rows; ++r) {
    const std::int64_t start = r / head * head, i = r % head / half, k = r % half;
    order[static_cast<std::size_t>(r)] = static_cast<std::int32_t>(start + 2 * k + i);
  }
  return order;
}

}  // namespace

Weights Weights::open(const std::string& path, LinearAs linear_as) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  Weights weights;
  weights.path_ = path;
  const auto status = fs::status(path, ignored);
  check(fs::exists(status), ErrorKind::kIo, "{} does not exist", path);
  if (fs::is_directory(status)) {
    const std::string single = path + "/model.safetensors", index = single + ".index.json";
    if (fs::exists(single, ignored)) {
      weights.add_safetensors(SafetensorsFile(single));
    } else {
      check(fs::exists(index, ignored), ErrorKind::kIo,
            "{} has neither model.safetensors nor model.safetensors.index.json; save the model with save_pretrained",
            path);
      weights.add_shards(path, index);
    }
  } else {
    check(path.ends_with(".gguf"), ErrorKind::kInvalidArgument,
          "{} is neither a folder with model.safetensors nor a .gguf file", path);
    weights.add_gguf(GgufFile(path));
  }
  weights.apply_scales();
  for (auto& [name, entry] : weights.entries_) entry.tensor.linear_as = linear_as;
  return weights;
}

void Weights::add(Entry entry, const std::string& file) {
  if (is_derived(entry.tensor.name)) return;
  const std::string name = entry.tensor.name;
  check(entries_.emplace(name, std::move(entry)).second, ErrorKind::kCorruptData,
        "{}: the tensor {} was already given, by this file or by another of the model", file, printable(name));
}

void Weights::add_safetensors(const SafetensorsFile& file) {
  files_.push_back(file.file());
  for (const SafetensorsFile::Tensor& tensor : file.tensors()) {
    const auto storage = storage_of_dtype(tensor.dtype);
    add({.tensor = {.name = tensor.name,
                    .storage = storage.value_or(Storage::kFloat32),
                    .shape = tensor.shape,
                    .data = tensor.data,
                    .row_order = {}},
         .unsupported_type = storage ? "" : tensor.dtype},
        file.name());
  }
}

void Weights::add_shards(const std::string& folder, const std::string& index_path) {
  const Json index = read_json_file(index_path);
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  check(map != index.end() && map->is_object() && !map->empty(), ErrorKind::kCorruptData,
        "{}: there is no \"weight_map\" from tensor names to files", index_path);
  std::map<std::string, std::vector<std::string>> names_of_shard;
  for (const auto& [name, shard] : map->items()) {
    check(shard.is_string(), ErrorKind::kCorruptData, "{}: the file of {} is not a string", index_path,
          printable(name));
    names_of_shard[shard.get<std::string>()].push_back(name);
  }
  for (const auto& [shard, names] : names_of_shard) {
    check_shard_name(shard, index_path);
    const SafetensorsFile file(folder + "/" + shard);
    std::vector<std::string_view> present;
    for (const SafetensorsFile::Tensor& tensor : file.tensors()) present.push_back(tensor.name);
    std::ranges::sort(present);
    for (const std::string& name : names) {
      check(std::ranges::binary_search(present, name), ErrorKind::kCorruptData,
            "{}: the tensor {} is said to be in {}, which does not have it", index_path, printable(name), shard);
    }
    add_safetensors(file);
  }
}

void Weights::add_gguf(const GgufFile& file) {
  is_gguf_ = true;
  files_.push_back(file.file());
  const Json& metadata = file.metadata();
  const std::string architecture = json_string(metadata, "general.architecture", "", file.name());
  const GgufNames names(architecture, file.name());
  // Permuted tensors alone need them: in other files they may be lists, one number a layer.
  const auto head_count = [&](const char* key, std::int64_t fallback) {
    return json_int(metadata, (architecture + ".attention." + key).c_str(), fallback, file.name());
  };
  std::optional<std::int64_t> n_heads, n_kv_heads;
  for (const GgufFile::Tensor& tensor : file.tensors()) {
    const CheckpointName name = names(tensor.name);
    const auto storage = storage_of_ggml_type(tensor.type);
    Entry entry{.tensor = {.name = name.name,
                           .storage = storage.value_or(Storage::kFloat32),
                           .shape = tensor.shape,
                           .data = tensor.data,
                           .row_order = {}},
                .unsupported_type = storage ? "" : ggml_type_name(tensor.type)};
    if (storage && name.permuted != CheckpointName::Heads::kNotPermuted) {
      if (!n_heads) n_heads = head_count("head_count", 0), n_kv_heads = head_count("head_count_kv", *n_heads);
      const std::int64_t heads = name.permuted == CheckpointName::Heads::kQuery ? *n_heads : *n_kv_heads;
      const std::int64_t rows = tensor.shape.empty() ? 1 : tensor.shape.front();
      check(heads > 0 && tensor.shape.size() <= 2 && rows <= INT32_MAX && rows % 2 == 0 && rows / 2 % heads == 0,
            ErrorKind::kCorruptData, "{}: {} rows of {} do not divide into {} heads of an even size", file.name(), rows,
            printable(tensor.name), heads);
      entry.tensor.row_order = rows_by_halves(rows, heads);
    }
    if (name.depthwise && tensor.shape.size() == 2) entry.tensor.shape.insert(entry.tensor.shape.begin() + 1, 1);
    add(std::move(entry), file.name());
  }
}

/// Fp8 checkpoints keep a scale beside each weight: "x.weight_scale", or, though it multiplies too,
/// "x.weight_scale_inv".
void Weights::apply_scales() {
  std::vector<std::string> companions;
  for (auto& [name, entry] : entries_) {
    if (entry.tensor.storage != Storage::kFloat8E4M3 && entry.tensor.storage != Storage::kFloat8E5M2) continue;
    bool scaled = false;
    for (const char* suffix : {"_scale", "_scale_inv"}) {
      const auto it = entries_.find(name + suffix);
      if (it == entries_.end()) continue;
      const Entry& companion = it->second;
      check(!scaled, ErrorKind::kCorruptData, "{}: the tensor {} has two scales, {}_scale and {}_scale_inv", path_,
            printable(name), printable(name), printable(name));
      check(companion.unsupported_type.empty() && companion.tensor.rows() * companion.tensor.columns() == 1,
            ErrorKind::kUnsupported,
            "{}: {} has shape [{}]; only one scale for the whole tensor can be read, not scales of blocks or rows",
            path_, printable(it->first), fmt::join(companion.tensor.shape, ", "));
      read_rows(companion.tensor, 0, 1, &entry.tensor.scale);
      check(std::isfinite(entry.tensor.scale), ErrorKind::kCorruptData, "{}: the scale {} is {}", path_,
            printable(it->first), entry.tensor.scale);
      companions.push_back(it->first);
      scaled = true;
    }
  }
  for (const std::string& name : companions) entries_.erase(name);
}

const StoredTensor& Weights::get(const std::string& name, const std::vector<std::int64_t>& shape) const {
  const auto it = entries_.find(name);
  check(it != entries_.end(), ErrorKind::kCorruptData, "{}: the tensor {} is missing", path_, name);
  const Entry& entry = it->second;
  entry.used = true;
  check(entry.unsupported_type.empty(), ErrorKind::kUnsupported,
        "{}: the tensor {} has type {}; F32, F16, BF16, F8_E4M3, F8_E5M2, U8 of safetensors and F32, F16, BF16, Q4_0, "
        "Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K, MXFP4 of GGUF can be read",
        path_, name, entry.unsupported_type);
  check(entry.tensor.shape == shape, ErrorKind::kCorruptData,
        "{}: the tensor {} has shape [{}], the configuration asks for [{}]", path_, name,
        fmt::join(entry.tensor.shape, ", "), fmt::join(shape, ", "));
  return entry.tensor;
}

std::vector<std::string> Weights::unused() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) {
    if (!entry.used) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

std::int64_t Weights::fingerprint() const {
  constexpr std::size_t kSample = 256;
  std::vector<const StoredTensor*> sorted = tensors();
  std::ranges::sort(sorted, {}, &StoredTensor::name);
  std::string text;
  for (const StoredTensor* stored : sorted) {
    const StoredTensor& tensor = *stored;
    text += fmt::format("{} {} [{}] {} ", tensor.name, name_of(tensor.storage), fmt::join(tensor.shape, ", "),
                        tensor.scale);
    const std::size_t n = std::min(kSample, tensor.data.size()), middle = (tensor.data.size() - n) / 2;
    for (const std::size_t begin : {std::size_t{0}, middle})
      text.append(reinterpret_cast<const char*>(tensor.data.data()) + begin, n);
  }
  return checksum(std::as_bytes(std::span(text)));
}

void Weights::drop_pages() const {
  for (const auto& file : files_) file->drop_pages();
}

std::int64_t Weights::n_bytes() const {
  return std::accumulate(entries_.begin(), entries_.end(), std::int64_t{0}, [](std::int64_t sum, const auto& item) {
    return sum + static_cast<std::int64_t>(item.second.tensor.data.size());
  });
}

std::vector<const StoredTensor*> Weights::tensors() const {
  std::vector<const StoredTensor*> all;
  for (const auto& [name, entry] : entries_) {
    if (entry.unsupported_type.empty()) all.push_back(&entry.tensor);
  }
  return all;
}

std::int64_t Weights::n_elements() const {
  return std::accumulate(entries_.begin(), entries_.end(), std::int64_t{0}, [](std::int64_t sum, const auto& item) {
    const Entry& entry = item.second;  // shapes of unknown types are held against nothing
    return entry.unsupported_type.empty() ? sum + entry.tensor.rows() * entry.tensor.columns() : sum;
  });
}

}  // namespace mneme
