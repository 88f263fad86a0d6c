#include "mneme/models/rope.h"

namespace mneme {

ops::Rope rope_of(const RopeConfig& rope, std::int64_t head_dim, std::int64_t max_position_embeddings) {
  const double part = rope.rope_type == "proportional" ? 1.0 : rope.partial_rotary_factor;
  const auto dim = static_cast<std::int64_t>(static_cast<double>(head_dim) * part);
  return ops::Rope(dim, {.type = rope.rope_type,
                         .theta = rope.rope_theta,
                         .factor = rope.factor,
                         .low_freq_factor = rope.low_freq_factor,
                         .high_freq_factor = rope.high_freq_factor,
                         .beta_fast = rope.beta_fast,
                         .beta_slow = rope.beta_slow,
                         .truncate = rope.truncate,
                         .attention_factor = rope.attention_factor,
                         .mscale = rope.mscale,
                         .mscale_all_dim = rope.mscale_all_dim,
                         .short_factor = rope.short_factor,
                         .long_factor = rope.long_factor,
                         .original_max_position_embeddings = rope.original_max_position_embeddings,
                         .max_position_embeddings = max_position_embeddings,
                         .part = rope.partial_rotary_factor});
}

std::vector<ops::Rope> ropes_of(const ModelConfig& c) {
  std::vector<ops::Rope> ropes = {rope_of(c.rope, c.head_dim, c.max_position_embeddings)};
  if (c.sliding_rope) ropes.push_back(rope_of(*c.sliding_rope, c.head_dim, c.max_position_embeddings));
  return ropes;
}

std::size_t rope_of_layer(const ModelConfig& c, std::int64_t i) {
  const LayerType type = c.layer_types[static_cast<std::size_t>(i)];
  return c.sliding_rope && type == LayerType::kSlidingAttention ? 1 : 0;
}

}  // namespace mneme
