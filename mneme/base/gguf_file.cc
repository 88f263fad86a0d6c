#include "mneme/base/gguf_file.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "mneme/base/error.h"
#include "mneme/base/printable.h"

namespace mneme {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF values are copied as they lie in the file");

constexpr std::uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr std::uint32_t kMaxDims = 4;
constexpr std::uint64_t kMaxNameBytes = 65535;
constexpr std::uint64_t kMaxAlignment = 1u << 20;
constexpr int kMaxArrayDepth = 4;
// Far above any vocabulary, and a bound on the memory that a file can ask for: a file with holes is large for free.
constexpr std::uint64_t kMaxHeaderBytes = 64 << 20;
constexpr std::uint64_t kMaxValues = 8 << 20;

enum ValueType : std::uint32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64
};

/// The fewest bytes that one value of a type takes in the file; 0 for an unknown type.
std::uint64_t min_bytes(std::uint32_t type) {
  switch (type) {
    case kUint8:
    case kInt8:
    case kBool: return 1;
    case kUint16:
    case kInt16: return 2;
    case kUint32:
    case kInt32:
    case kFloat32: return 4;
    case kString:
    case kUint64:
    case kInt64:
    case kFloat64: return 8;
    case kArray: return 12;
    default: return 0;
  }
}

/// Reads the file front to back. Every read is checked against what is left, never by a sum that could wrap.
class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  std::uint64_t position() const { return position_; }

  template <class T>
  T number(std::string_view what) {
    T value;
    std::memcpy(&value, take(sizeof(T), what), sizeof(T));
    return value;
  }

  std::string_view string(std::string_view what) {
    const auto n = number<std::uint64_t>(what);
    return {reinterpret_cast<const char*>(take(n, what)), static_cast<std::size_t>(n)};
  }

  /// A key or tensor name.
  std::string name(std::string_view what) {
    const std::string_view text = string(what);
    check(!text.empty() && text.size() <= kMaxNameBytes, ErrorKind::kCorruptData,
          "{}: {} is {} bytes long, allowed are 1 to {}", file_, what, text.size(), kMaxNameBytes);
    return std::string(text);
  }

  /// How many entries follow, each of at least `entry_bytes`: never more than the rest of the file can hold.
  std::uint64_t count(std::uint64_t entry_bytes, std::string_view what) {
    const auto n = number<std::uint64_t>(what);
    check_count(n, entry_bytes, what);
    return n;
  }

  void check_count(std::uint64_t n, std::uint64_t entry_bytes, std::string_view what) const {
    check(n <= left() / entry_bytes, ErrorKind::kCorruptData, "{}: {} is {}, the {} bytes left hold at most {}", file_,
          what, n, left(), left() / entry_bytes);
  }

  Json value(std::uint32_t type, std::string_view key, int depth = 0) {
    switch (type) {
      case kUint8: return number<std::uint8_t>(key);
      case kInt8: return number<std::int8_t>(key);
      case kUint16: return number<std::uint16_t>(key);
      case kInt16: return number<std::int16_t>(key);
      case kUint32: return number<std::uint32_t>(key);
      case kInt32: return number<std::int32_t>(key);
      case kUint64: return number<std::uint64_t>(key);
      case kInt64: return number<std::int64_t>(key);
      case kFloat32: return number<float>(key);
      case kFloat64: return number<double>(key);
      case kBool: return boolean(key);
      case kString: return string(key);
      case kArray: return array(key, depth);
      default:
        throw Error(ErrorKind::kCorruptData, "{}: {} has the unknown value type {}", file_, printable(key), type);
    }
  }

 private:
  std::uint64_t left() const { return bytes_.size() - position_; }

  const std::byte* take(std::uint64_t n, std::string_view what) {
    if (n > left()) {
      throw Error(ErrorKind::kCorruptData, "{}: {} at byte {} takes {} bytes, the file has {} left", file_,
                  printable(what), position_, n, left());
    }
    const std::byte* data = bytes_.data() + position_;
    position_ += n;
    if (position_ > kMaxHeaderBytes) {
      throw Error(ErrorKind::kCorruptData, "{}: {} ends at byte {}, metadata and tensor table may take {}", file_,
                  printable(what), position_, kMaxHeaderBytes);
    }
    return data;
  }

  bool boolean(std::string_view key) {
    const auto value = number<std::uint8_t>(key);
    if (value > 1) {
      throw Error(ErrorKind::kCorruptData, "{}: {} is a truth value of {}, it must be 0 or 1", file_, printable(key),
                  value);
    }
    return value == 1;
  }

  Json array(std::string_view key, int depth) {
    check(depth < kMaxArrayDepth, ErrorKind::kCorruptData, "{}: {} nests arrays deeper than {} levels", file_,
          printable(key), kMaxArrayDepth);
    const auto type = number<std::uint32_t>(key);
    const std::uint64_t entry_bytes = min_bytes(type);
    check(entry_bytes > 0, ErrorKind::kCorruptData, "{}: {} is an array of the unknown value type {}", file_,
          printable(key), type);
    const auto n = number<std::uint64_t>(key);
    check_count(n, entry_bytes, "the length of " + printable(key));
    check(n <= kMaxValues - n_values_, ErrorKind::kCorruptData,
          "{}: with the {} values of {} its arrays hold {}, at most {} are allowed", file_, n, printable(key),
          n_values_ + n, kMaxValues);
    n_values_ += n;
    Json::array_t items;
    items.reserve(n);
    for (std::uint64_t i = 0; i < n; ++i) items.push_back(value(type, key, depth + 1));
    return items;
  }

  std::span<const std::byte> bytes_;
  const std::string& file_;
  std::uint64_t position_ = 0;
  std::uint64_t n_values_ = 0;  // of all arrays
};

/// All metadata, in file order. Entries are appended to the object's vector: its own insertion searches linearly.
Json read_metadata(Reader& reader, std::uint64_t n, const std::string& file) {
  Json::object_t object;
  object.reserve(n);
  std::unordered_set<std::string> seen;
  for (std::uint64_t i = 0; i < n; ++i) {
    std::string key = reader.name("a metadata key");
    check(seen.insert(key).second, ErrorKind::kCorruptData, "{}: the metadata key {} occurs twice", file,
          printable(key));
    const auto type = reader.number<std::uint32_t>(key);
    Json value = reader.value(type, key);
    object.emplace_back(std::move(key), std::move(value));
  }
  return object;
}

/// One row of the tensor table; `offset` counts from the start of the data section.
struct TableEntry {
  GgufFile::Tensor tensor;
  std::uint64_t offset = 0;
};

TableEntry read_table_entry(Reader& reader, const std::string& file) {
  TableEntry entry;
  entry.tensor.name = reader.name("a tensor name");
  const std::string& name = entry.tensor.name;
  const auto n_dims = reader.number<std::uint32_t>(name);
  check(n_dims <= kMaxDims, ErrorKind::kCorruptData, "{}: tensor {} has {} dimensions, at most {} are allowed", file,
        printable(name), n_dims, kMaxDims);
  for (std::uint32_t i = 0; i < n_dims; ++i) {
    const auto size = reader.number<std::uint64_t>(name);
    check(size > 0 && size <= INT64_MAX, ErrorKind::kCorruptData, "{}: tensor {} has a dimension of {}", file,
          printable(name), size);
    entry.tensor.shape.push_back(static_cast<std::int64_t>(size));
  }
  std::ranges::reverse(entry.tensor.shape);
  entry.tensor.type = reader.number<std::uint32_t>(name);
  entry.offset = reader.number<std::uint64_t>(name);
  return entry;
}

/// Bytes of a tensor of a known type. No tensor can be larger than its file, so a product past `limit` is an error.
std::uint64_t tensor_bytes(const GgufFile::Tensor& tensor, const GgmlTypeInfo& type, std::uint64_t limit,
                           const std::string& file) {
  const std::int64_t columns = tensor.shape.empty() ? 1 : tensor.shape.back();
  check(columns % type.block_elements == 0, ErrorKind::kCorruptData,
        "{}: rows of tensor {} have {} elements, not a multiple of the {} of a {} block", file, printable(tensor.name),
        columns, type.block_elements, type.name);
  auto n_bytes = static_cast<std::uint64_t>(type.block_bytes);
  const auto multiply = [&](std::int64_t factor) {
    check(static_cast<std::uint64_t>(factor) <= limit / n_bytes, ErrorKind::kCorruptData,
          "{}: tensor {} of shape [{}] and type {} does not fit into the {} bytes of the data section", file,
          printable(tensor.name), fmt::join(tensor.shape, ", "), type.name, limit);
    n_bytes *= static_cast<std::uint64_t>(factor);
  };
  multiply(columns / type.block_elements);
  for (std::size_t i = 0; i + 1 < tensor.shape.size(); ++i) multiply(tensor.shape[i]);
  return n_bytes;
}

std::uint64_t read_alignment(const Json& metadata, const std::string& file) {
  const std::int64_t alignment = json_int(metadata, "general.alignment", 32, file);
  check(alignment > 0 && std::has_single_bit(static_cast<std::uint64_t>(alignment)) &&
            static_cast<std::uint64_t>(alignment) <= kMaxAlignment,
        ErrorKind::kCorruptData, "{}: general.alignment is {}, it must be a power of two up to {}", file, alignment,
        kMaxAlignment);
  return static_cast<std::uint64_t>(alignment);
}

}  // namespace

GgufFile::GgufFile(const std::string& path) : file_(std::make_shared<MappedFile>(path)), name_(path) {
  parse(file_->bytes());
}

GgufFile::GgufFile(std::span<const std::byte> bytes, const std::string& name) : name_(name) { parse(bytes); }

void GgufFile::parse(std::span<const std::byte> bytes) {
  Reader reader(bytes, name_);
  check(reader.number<std::uint32_t>("the magic number") == kMagic, ErrorKind::kCorruptData,
        "{}: not a GGUF file, it does not start with \"GGUF\"", name_);
  const auto version = reader.number<std::uint32_t>("the version");
  check(version == 0 || version % 65536 != 0, ErrorKind::kUnsupported,
        "{}: a big-endian GGUF file; convert it to little endian", name_);
  // Version 2 has the layout of version 3, which only added big-endian files; version 1 counted in 32 bits.
  check(version == 2 || version == 3, ErrorKind::kUnsupported,
        "{}: GGUF version {}, versions 2 and 3 can be read; convert the model again", name_, version);
  const auto n_tensors = reader.count(8 + 4 + 4 + 8, "the number of tensors");
  const auto n_keys = reader.count(8 + 4 + 1, "the number of metadata keys");
  metadata_ = read_metadata(reader, n_keys, name_);

  reader.check_count(n_tensors, 8 + 4 + 4 + 8, "the number of tensors");
  std::vector<TableEntry> table;
  table.reserve(n_tensors);
  for (std::uint64_t i = 0; i < n_tensors; ++i) table.push_back(read_table_entry(reader, name_));

  const std::uint64_t alignment = read_alignment(metadata_, name_);
  const std::uint64_t start = (reader.position() + alignment - 1) / alignment * alignment;
  const auto section = bytes.subspan(std::min<std::uint64_t>(start, bytes.size()));
  std::unordered_set<std::string> seen;
  tensors_.reserve(table.size());
  for (TableEntry& entry : table) {
    Tensor& tensor = entry.tensor;
    check(seen.insert(tensor.name).second, ErrorKind::kCorruptData, "{}: the tensor {} occurs twice", name_,
          printable(tensor.name));
    check(entry.offset % alignment == 0, ErrorKind::kCorruptData,
          "{}: tensor {} starts at byte {} of the data section, not a multiple of the alignment {}", name_,
          printable(tensor.name), entry.offset, alignment);
    check(entry.offset <= section.size(), ErrorKind::kCorruptData,
          "{}: tensor {} starts at byte {} of the data section, which has {}", name_, printable(tensor.name),
          entry.offset, section.size());
    const GgmlTypeInfo type = ggml_type_info(tensor.type);
    if (type.block_bytes > 0) {
      const std::uint64_t n_bytes = tensor_bytes(tensor, type, section.size(), name_);
      check(n_bytes <= section.size() - entry.offset, ErrorKind::kCorruptData,
            "{}: tensor {} takes {} bytes from byte {} of the data section, which has {}", name_,
            printable(tensor.name), n_bytes, entry.offset, section.size());
      tensor.data = section.subspan(entry.offset, n_bytes);
    }
    tensors_.push_back(std::move(tensor));
  }
}

GgmlTypeInfo ggml_type_info(std::uint32_t type) {
  switch (type) {
    case 0: return {1, 4, "F32"};
    case 1: return {1, 2, "F16"};
    case 2: return {32, 18, "Q4_0"};
    case 3: return {32, 20, "Q4_1"};
    case 6: return {32, 22, "Q5_0"};
    case 7: return {32, 24, "Q5_1"};
    case 8: return {32, 34, "Q8_0"};
    case 10: return {256, 84, "Q2_K"};
    case 11: return {256, 110, "Q3_K"};
    case 12: return {256, 144, "Q4_K"};
    case 13: return {256, 176, "Q5_K"};
    case 14: return {256, 210, "Q6_K"};
    case 16: return {256, 66, "IQ2_XXS"};
    case 17: return {256, 74, "IQ2_XS"};
    case 18: return {256, 98, "IQ3_XXS"};
    case 19: return {256, 50, "IQ1_S"};
    case 20: return {32, 18, "IQ4_NL"};
    case 21: return {256, 110, "IQ3_S"};
    case 22: return {256, 82, "IQ2_S"};
    case 23: return {256, 136, "IQ4_XS"};
    case 24: return {1, 1, "I8"};
    case 25: return {1, 2, "I16"};
    case 26: return {1, 4, "I32"};
    case 27: return {1, 8, "I64"};
    case 28: return {1, 8, "F64"};
    case 29: return {256, 56, "IQ1_M"};
    case 30: return {1, 2, "BF16"};
    case 34: return {256, 54, "TQ1_0"};
    case 35: return {256, 66, "TQ2_0"};
    case 39: return {32, 17, "MXFP4"};
    case 40: return {64, 36, "NVFP4"};
    case 41: return {128, 18, "Q1_0"};
    default: return {0, 0, ""};
  }
}

}  // namespace mneme
