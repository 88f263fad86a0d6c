#include "mneme/base/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "mneme/base/error.h"
#include "mneme/base/json.h"
#include "mneme/base/printable.h"

namespace mneme {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are used as they lie in the file");

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the limit of the Python library

/// Bits of one element; 0 for a name that the format does not have.
std::int64_t dtype_bits(const std::string& dtype) {
  static const std::unordered_map<std::string, std::int64_t> kBits = {
      {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"BOOL", 8},        {"U8", 8},      {"I8", 8},
      {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"F8_E8M0", 8}, {"I16", 16},
      {"U16", 16},    {"F16", 16},    {"BF16", 16},       {"I32", 32},        {"U32", 32},    {"F32", 32},
      {"I64", 64},    {"U64", 64},    {"F64", 64},        {"C64", 64}};
  const auto it = kBits.find(dtype);
  return it == kBits.end() ? 0 : it->second;
}

/// One tensor of the header, its numbers not yet held against the file.
struct Entry {
  SafetensorsFile::Tensor tensor;
  std::uint64_t begin = 0, end = 0;  // in the data section
};

/// Reads the header's values. Every check names the tensor and the field.
class HeaderReader {
 public:
  explicit HeaderReader(const std::string& file) : file_(file) {}

  Entry entry(const std::string& name, const Json& json) const {
    require(json.is_object(), name, "is not an object");
    const Json& dtype = field(name, json, "dtype");
    const Json& shape = field(name, json, "shape");
    const Json& offsets = field(name, json, "data_offsets");
    check(dtype.is_string() && dtype_bits(dtype.get_ref<const std::string&>()), ErrorKind::kCorruptData,
          "{}: {} has an unknown \"dtype\" {} in the header", file_, printable(name), printable(dtype.dump()));
    require(shape.is_array(), name, "has a \"shape\" that is not a list");
    require(offsets.is_array() && offsets.size() == 2, name, "has \"data_offsets\" that are not two numbers");
    // Not inside the braces below: GCC 12 destroys what stands there already twice if a later initializer throws.
    const std::uint64_t begin = number(name, offsets[0]), end = number(name, offsets[1]);
    Entry entry{.tensor = {.name = name, .dtype = dtype.get<std::string>(), .shape = {}, .data = {}},
                .begin = begin,
                .end = end};
    for (const Json& size : shape) entry.tensor.shape.push_back(static_cast<std::int64_t>(number(name, size)));
    return entry;
  }

  std::map<std::string, std::string> metadata(const Json& json) const {
    std::map<std::string, std::string> strings;
    if (json.is_null()) return strings;
    require(json.is_object(), "__metadata__", "is not an object");
    for (const auto& [key, value] : json.items()) {
      require(value.is_string(), "__metadata__", "holds something else than strings");
      strings.emplace(key, value.get<std::string>());
    }
    return strings;
  }

 private:
  void require(bool right, const std::string& name, const char* what) const {
    check(right, ErrorKind::kCorruptData, "{}: {} {} in the header", file_, printable(name), what);
  }

  const Json& field(const std::string& name, const Json& json, const char* key) const {
    const auto it = json.find(key);
    check(it != json.end(), ErrorKind::kCorruptData, "{}: tensor {} has no \"{}\" in the header", file_,
          printable(name), key);
    return *it;
  }

  std::uint64_t number(const std::string& name, const Json& json) const {
    constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();
    require(json.is_number_unsigned() && json.get<std::uint64_t>() <= kMax, name,
            "has a size or an offset that is not a whole number from 0 to 2^63-1");
    return json.get<std::uint64_t>();
  }

  const std::string& file_;
};

/// Bytes that shape and dtype ask for. Sizes multiply in order, and no product on the way may pass 2^63-1.
std::uint64_t tensor_bytes(const SafetensorsFile::Tensor& tensor, const std::string& file) {
  std::int64_t n_bits = 1;
  bool fits = true;
  for (const std::int64_t size : tensor.shape) fits = fits && !__builtin_mul_overflow(n_bits, size, &n_bits);
  fits = fits && !__builtin_mul_overflow(n_bits, dtype_bits(tensor.dtype), &n_bits);
  check(fits, ErrorKind::kCorruptData, "{}: tensor {} of shape [{}] has more than 2^63 bits", file,
        printable(tensor.name), fmt::join(tensor.shape, ", "));
  check(n_bits % 8 == 0, ErrorKind::kCorruptData, "{}: tensor {} of shape [{}] and type {} ends within a byte", file,
        printable(tensor.name), fmt::join(tensor.shape, ", "), tensor.dtype);
  return static_cast<std::uint64_t>(n_bits) / 8;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path, MappedFile::Access access)
    : file_(std::make_shared<MappedFile>(path, access)), name_(path) {
  parse(file_->bytes());
}

SafetensorsFile::SafetensorsFile(std::span<const std::byte> bytes, const std::string& name) : name_(name) {
  parse(bytes);
}

void SafetensorsFile::parse(std::span<const std::byte> bytes) {
  check(bytes.size() >= kLengthBytes, ErrorKind::kCorruptData,
        "{}: {} bytes are too few for a safetensors file, which starts with {} bytes of header length", name_,
        bytes.size(), kLengthBytes);
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), kLengthBytes);
  check(header_bytes <= kMaxHeaderBytes && header_bytes <= bytes.size() - kLengthBytes, ErrorKind::kCorruptData,
        "{}: a header of {} bytes is announced, {} bytes follow and {} are allowed; is it a safetensors file?", name_,
        header_bytes, bytes.size() - kLengthBytes, kMaxHeaderBytes);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, header_bytes);
  check(!text.starts_with("\xef\xbb\xbf"), ErrorKind::kCorruptData, "{}: the header starts with a byte order mark",
        name_);
  const Json header = parse_json(text, name_, RepeatedKeys::kRefuse);
  check(header.is_object(), ErrorKind::kCorruptData, "{}: the header is not a JSON object", name_);

  const HeaderReader reader(name_);
  std::vector<Entry> entries;
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") {
      metadata_ = reader.metadata(value);
    } else {
      entries.push_back(reader.entry(name, value));
    }
  }
  std::ranges::sort(entries, {},
                    [](const Entry& entry) { return std::tie(entry.begin, entry.end, entry.tensor.name); });

  const auto section = bytes.subspan(kLengthBytes + header_bytes);
  std::uint64_t position = 0;
  for (Entry& entry : entries) {
    Tensor& tensor = entry.tensor;
    check(entry.begin == position && entry.end >= entry.begin && entry.end <= section.size(), ErrorKind::kCorruptData,
          "{}: tensor {} has bytes {} to {} of the data section, it must start at {} and end by {}", name_,
          printable(tensor.name), entry.begin, entry.end, position, section.size());
    const std::uint64_t n_bytes = tensor_bytes(tensor, name_);
    check(n_bytes == entry.end - entry.begin, ErrorKind::kCorruptData,
          "{}: tensor {} of shape [{}] and type {} takes {} bytes, its offsets give it {}", name_,
          printable(tensor.name), fmt::join(tensor.shape, ", "), tensor.dtype, n_bytes, entry.end - entry.begin);
    tensor.data = section.subspan(entry.begin, n_bytes);
    position = entry.end;
    tensors_.push_back(std::move(tensor));
  }
  check(position == section.size(), ErrorKind::kCorruptData,
        "{}: the tensors end at byte {} of the data section, which has {}; bytes that no tensor owns are not allowed",
        name_, position, section.size());
}

}  // namespace mneme
