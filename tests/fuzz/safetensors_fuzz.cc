// The bytes are a .safetensors file: the tensors of the folder around it can be read to the end, or there is one Error.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "mneme/base/error.h"
#include "mneme/base/safetensors.h"
#include "mneme/models/weights.h"
#include "tests/support/files.h"

namespace {

void read_tensors(const mneme::SafetensorsFile& file, const mneme::Weights& weights) {
  for (const auto& tensor : file.tensors()) {
    if (!weights.contains(tensor.name)) continue;  // the scale of another tensor
    try {
      const mneme::StoredTensor& stored = weights.get(tensor.name, tensor.shape);
      std::vector<float> values(static_cast<std::size_t>(stored.rows() * stored.columns()));
      mneme::read_rows(stored, 0, stored.rows(), values.data());
    } catch (const mneme::Error&) {  // of a type that cannot be read
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const mneme::testing::TempFolder folder;
  try {
    const mneme::SafetensorsFile file(std::as_bytes(std::span(data, size)), "fuzz");
    folder.write("model.safetensors", {reinterpret_cast<const char*>(data), size});
    read_tensors(file, mneme::Weights::open(folder.path()));
  } catch (const mneme::Error&) {
  }
  return 0;
}
