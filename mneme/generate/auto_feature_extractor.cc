#include "mneme/generate/auto_feature_extractor.h"

#include "mneme/base/error.h"

namespace mneme {

at::Tensor FeatureExtractor::operator()(const std::vector<Audio>& sounds) const {
  check(!sounds.empty(), ErrorKind::kInvalidArgument, "no sound was given");
  std::vector<at::Tensor> features;
  for (const Audio& sound : sounds) {
    std::vector<float> rows = log_mel_.features(sound);
    features.push_back(at::from_blob(rows.data(), {config().n_frames(), config().feature_size}, at::kFloat)
                           .t()
                           .clone(at::MemoryFormat::Contiguous));
  }
  return at::stack(features);
}

}  // namespace mneme
