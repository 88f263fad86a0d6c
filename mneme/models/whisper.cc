#include <algorithm>
#include <utility>
#include <vector>

#include "mneme/base/error.h"
#include "mneme/models/architectures.h"
#include "mneme/models/bart_model.h"
#include "mneme/models/config_keys.h"

namespace mneme {
namespace {

constexpr std::int64_t kTaps = 3;

/// A convolution over rows: y[t] = b + sum over k of W_k x[stride t + k - 1], zeros before the first row and after the
/// last; one product of three neighbours side by side.
class RowConv {
 public:
  RowConv(const Loader& load, const std::string& name, std::int64_t out, std::int64_t in, std::int64_t stride)
      : stride_(stride) {
    const StoredTensor& stored = load.weights.get(name + ".weight", {out, in, kTaps});
    const auto read = [&stored, in](std::int64_t first, std::int64_t n, float* rows) {
      std::vector<float> values(static_cast<std::size_t>(n * in * kTaps));  // [out][in][taps]
      const std::int64_t each = in * kTaps / stored.columns();
      read_rows(stored, first * each, n * each, values.data());
      for (std::int64_t o = 0; o < n; ++o) {
        for (std::int64_t i = 0; i < in * kTaps; ++i)
          rows[o * in * kTaps + i % kTaps * in + i / kTaps] = values[static_cast<std::size_t>(o * in * kTaps + i)];
      }
    };
    linear_ = ops::Linear({out, in * kTaps, read}, load.dtype, load.device, load.vector(name + ".bias", out));
  }

  std::int64_t n_bytes() const { return linear_.n_bytes(); }

  /// x [stride n, in] -> y [n, out].
  void forward(ops::Workspace& workspace, const ops::Rows& x, const ops::Rows& y) const {
    const ops::Workspace::Scope scope(workspace);
    const ops::Rows neighbours = ops::scratch_rows(workspace, y.n, kTaps * x.width);
    ops::fill_zero(workspace, neighbours);
    const at::Tensor from = ops::as_tensor(workspace, x), to = ops::as_tensor(workspace, neighbours);
    for (std::int64_t k = 0; k < kTaps; ++k) {
      const std::int64_t first = k == 0 ? 1 : 0;  // of y whose row stride t + k - 1 is there
      const std::int64_t end = std::min(y.n, (x.n - k) / stride_ + 1);
      to.narrow(0, first, end - first)
          .narrow(1, k * x.width, x.width)
          .copy_(from.slice(0, stride_ * first + k - 1, stride_ * (end - 1) + k, stride_));
    }
    linear_.forward(workspace, neighbours, y);
    ops::activate(workspace, ops::Activation::kGelu, y);
  }

 private:
  ops::Linear linear_;
  std::int64_t stride_;
};

/// Whisper (Radford et al. 2022, arXiv:2212.04356): two convolutions over log-mel spectra, the second of which halves
/// their number, before BART's encoder with norms first.
class Whisper final : public Bart {
 public:
  Whisper(const ModelConfig& c, const Loader& load)
      : Bart(c, load,
             {.norm_first = true,
              .embedding_norm = false,
              .key_bias = false,
              .spare_positions = false,
              .encoder_reads_ids = false,
              .encoder_positions = "max_source_positions",
              .head = "proj_out.weight"}),
        n_states_(ConfigKeys{c.raw, c.name}.size("max_source_positions")),
        n_bands_(ConfigKeys{c.raw, c.name}.size("num_mel_bins")),
        first_(load, "model.encoder.conv1", c.hidden_size, n_bands_, 1),
        second_(load, "model.encoder.conv2", c.hidden_size, c.hidden_size, 2) {}

  std::int64_t n_bytes() const override { return Bart::n_bytes() + first_.n_bytes() + second_.n_bytes(); }

  std::optional<Features> features() const override { return Features{2 * n_states_, n_bands_, n_states_}; }

  void embed_features(ops::Workspace& workspace, const ops::Rows& features,
                      const ops::Rows& embeddings) const override {
    const ops::Workspace::Scope scope(workspace);
    const std::int64_t n_rows = 2 * n_states_;
    const ops::Rows middle = ops::scratch_rows(workspace, n_rows, embeddings.width);
    for (std::int64_t i = 0; i < features.n / n_rows; ++i) {
      first_.forward(workspace, {features.row(i * n_rows), n_rows, features.width}, middle);
      second_.forward(workspace, middle, {embeddings.row(i * n_states_), n_states_, embeddings.width});
    }
  }

 private:
  std::int64_t n_states_, n_bands_;
  RowConv first_, second_;
};

}  // namespace

std::unique_ptr<Seq2SeqModel> build_whisper(const ModelConfig& c, const Weights& weights, DType dtype,
                                            at::Device device) {
  return std::make_unique<Whisper>(c, Loader{weights, dtype, device});
}

}  // namespace mneme
