// The bytes are a .gguf file: it gives metadata, a configuration and tensors that can be read to the end, or one Error.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "mneme/base/error.h"
#include "mneme/base/gguf_file.h"
#include "mneme/models/config.h"
#include "mneme/models/gguf_config.h"
#include "mneme/models/weights.h"
#include "tests/support/files.h"

namespace {

void read_tensors(const std::string& path) {
  const mneme::Weights weights = mneme::Weights::open(path);
  for (const mneme::StoredTensor* stored : weights.tensors()) {
    std::vector<float> values(static_cast<std::size_t>(stored->rows() * stored->columns()));
    mneme::read_rows(*stored, 0, stored->rows(), values.data());
  }
}

template <class Action>
void survive(const Action& action) {
  try {
    action();
  } catch (const mneme::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const mneme::testing::TempFolder folder;
  survive([&] {
    const mneme::GgufFile file(std::as_bytes(std::span(data, size)), "fuzz");
    survive([&] { mneme::ModelConfig::from_json(mneme::config_from_gguf(file), "fuzz"); });
    const std::string_view content(reinterpret_cast<const char*>(data), size);
    survive([&] { read_tensors(folder.write("model.gguf", content)); });
  });
  return 0;
}
