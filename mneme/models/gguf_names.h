#pragma once

#include <string>
#include <string_view>

namespace mneme {

/// What a tensor of a GGUF file is in a Hugging Face checkpoint.
struct CheckpointName {
  /// GGUF keeps the rows of Llama's queries and keys in another order (pairs of a rotation side by side, instead of
  /// half a head apart): which of the two numbers of heads the rows belong to.
  enum class Heads { kNotPermuted, kQuery, kKeyValue };

  std::string name;  ///< e.g. "model.layers.0.self_attn.q_proj.weight"; the GGUF name itself if no row knows it
  Heads permuted = Heads::kNotPermuted;
  bool depthwise = false;  ///< taps [channels, taps] of a convolution that checkpoints keep as [channels, 1, taps]
};

/// Translates the tensor names of one `general.architecture`; a further architecture is a further row of its table.
class GgufNames {
 public:
  /// Throws Error(kUnsupported) with the architectures that are known.
  explicit GgufNames(std::string_view architecture, std::string_view file);

  CheckpointName operator()(std::string_view gguf_name) const;

 private:
  const struct GgufArchitecture* architecture_;
};

}  // namespace mneme
