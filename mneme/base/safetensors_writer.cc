#include "mneme/base/safetensors_writer.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "mneme/base/error.h"
#include "mneme/base/json.h"

namespace mneme {
namespace {

/// A file that becomes `path` when it is whole, and vanishes otherwise.
class DraftFile {
 public:
  explicit DraftFile(const std::string& path) : path_(path), draft_(path + ".XXXXXX") {
    fd_ = ::mkostemp(draft_.data(), O_CLOEXEC);
    if (fd_ < 0) fail("cannot be made");
  }
  ~DraftFile() {
    if (fd_ >= 0) {
      ::close(fd_);
      ::unlink(draft_.c_str());
    }
  }
  DraftFile(const DraftFile&) = delete;
  DraftFile& operator=(const DraftFile&) = delete;

  void write(std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) fail("cannot be written");
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
  }

  void publish() {
    const mode_t mask = ::umask(0);
    ::umask(mask);
    if (::fchmod(fd_, 0666 & ~mask) != 0 || ::fsync(fd_) != 0) fail("cannot be written");
    if (::rename(draft_.c_str(), path_.c_str()) != 0) fail("cannot be made");
    ::close(std::exchange(fd_, -1));
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw Error(ErrorKind::kIo, "{} {}: {}; what was there before is untouched", path_, what, std::strerror(errno));
  }

  const std::string path_;
  std::string draft_;
  int fd_ = -1;
};

}  // namespace

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
  file.write(std::as_bytes(std::span(text)));
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
