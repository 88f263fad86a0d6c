#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mneme/models/embedding.h"
#include "mneme/models/loader.h"
#include "mneme/models/norm.h"
#include "mneme/models/seq2seq_model.h"
#include "mneme/ops/activation.h"
#include "mneme/ops/linear.h"

namespace mneme {

/// How the models of this family differ.
struct BartOptions {
  bool norm_first = false;        ///< norms before each sublayer and one after all layers (mBART), else after each
  bool embedding_norm = true;     ///< of token and position together
  bool sinusoids = false;         ///< positions are not learned (Marian)
  bool key_bias = true;           ///< keys have one, as queries and values
  bool spare_positions = true;    ///< Parity: two rows before the first position are for a padding token nothing reads
  bool encoder_reads_ids = true;  ///< else embeddings are all it gets (Whisper)
  const char* encoder_positions = "max_position_embeddings";  ///< the key of their number
  const char* head = "lm_head.weight";
};

/// BART (Lewis et al. 2019, arXiv:1910.13461), mBART (Liu et al. 2020, arXiv:2001.08210), Marian (Junczys-Dowmunt et
/// al. 2018, arXiv:1804.00344) and behind its front end Whisper: layer norms and biases everywhere, positions added to
/// the embeddings.
class Bart : public Seq2SeqModel {
 public:
  Bart(const ModelConfig& config, const Loader& load, const BartOptions& options);

  std::int64_t n_bytes() const override;
  void encode(const TokenBatch& source, ops::Workspace& workspace, const ops::Rows& states) const override;
  void write_cross(const ops::Rows& states, std::span<const std::int64_t> row_starts, Cache& cross) const override;
  void decode(const TokenBatch& batch, Cache& cache, const Cache& cross, std::span<const std::int64_t> logit_rows,
              const ops::Rows& logits) const override;

 private:
  struct Block {
    Norm attention_norm, cross_norm, feed_forward_norm;
    ops::Linear qkv, output, cross_query, cross_keys_values, cross_output, expand, contract;  // cross_: decoder only
  };
  struct Stack {
    std::optional<Embedding> embedding;
    std::int64_t n_heads;
    float scale;           // of scores
    at::Tensor positions;  // [max positions + offset, E] float32
    std::int64_t offset;   // row of position 0
    Norm embedding_norm, norm;
    std::vector<Block> blocks;
  };
  /// Of the encoder or the decoder.
  struct StackSizes {
    std::int64_t n_layers, n_heads, inner, n_positions;
  };

  StackSizes encoder_sizes() const;
  Stack load_stack(const Loader& load, const std::string& prefix, const StackSizes& sizes, bool of_decoder) const;
  Block load_block(const Loader& load, const std::string& prefix, std::int64_t inner, bool of_decoder) const;
  void embed(ops::Workspace& workspace, const Stack& stack, const TokenBatch& batch,
             std::span<const std::int64_t> positions, const ops::Rows& out) const;
  template <class F>
  void sublayer(ops::Workspace& workspace, const Norm& norm, const ops::Rows& hidden, F&& f) const;
  template <class Attend>
  void self_attention(ops::Workspace& workspace, const Block& block, const Stack& stack, const ops::Rows& x,
                      const ops::Rows& y, const Attend& attend) const;
  void feed_forward(ops::Workspace& workspace, const Block& block, const ops::Rows& hidden) const;

  BartOptions o_;
  ops::Activation activation_;
  float scale_;
  Stack encoder_, decoder_;
  ops::Linear head_;
};

}  // namespace mneme
