#include "mneme/base/safetensors_writer.h"

#include <utility>

#include "mneme/base/draft_file.h"
#include "mneme/base/json.h"

namespace mneme {
void SafetensorsWriter::add(std::string name, std::string dtype, std::vector<std::int64_t> shape,
                            std::vector<std::span<const std::byte>> pieces) {
  Tensor tensor{
      .name = std::move(name), .dtype = std::move(dtype), .shape = std::move(shape), .pieces = std::move(pieces)};
  for (const auto& piece : tensor.pieces) tensor.n_bytes += piece.size();
  tensors_.push_back(std::move(tensor));
}

void SafetensorsWriter::add_rows(std::string name, std::int64_t n, std::int64_t row_bytes,
                                 std::function<void(std::int64_t, std::span<std::byte>)> read) {
  tensors_.push_back({.name = std::move(name),
                      .dtype = "U8",
                      .shape = {n, row_bytes},
                      .read_row = std::move(read),
                      .n_bytes = static_cast<std::uint64_t>(n * row_bytes)});
}

std::string SafetensorsWriter::header() const {
  Json json = Json::object();
  if (!metadata_.empty()) json["__metadata__"] = metadata_;
  std::uint64_t begin = 0;
  for (const Tensor& tensor : tensors_) {
    json[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, begin + tensor.n_bytes}}};
    begin += tensor.n_bytes;
  }
  std::string text = json.dump();
  text.resize((text.size() + 8 + 63) / 64 * 64 - 8, ' ');
  return text;
}

void SafetensorsWriter::write(const std::string& path) const {
  const std::string text = header();
  const std::uint64_t length = text.size();
  DraftFile file(path);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(text);
  std::vector<std::byte> row;
  for (const Tensor& tensor : tensors_) {
    for (const auto& piece : tensor.pieces) file.write(piece);
    if (!tensor.read_row) continue;
    row.resize(static_cast<std::size_t>(tensor.shape[1]));
    for (std::int64_t i = 0; i < tensor.shape[0]; ++i) {
      tensor.read_row(i, row);
      file.write(row);
    }
  }
  file.publish();
}

}  // namespace mneme
