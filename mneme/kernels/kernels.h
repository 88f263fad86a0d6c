#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "mneme/base/dtype.h"
#include "mneme/base/weight_format.h"
#include "mneme/kernels/visibility.h"

/// CPU kernels: raw pointers and sizes in, nothing thrown, no allocation, no threads of their own. `ops/` checks
/// shapes, splits work over threads and picks the table. Every kernel gives the same bits on every instruction set, for
/// any split of rows, panels or tokens: the scalar table is the specification that the tests hold the others against.
///
/// One product serves linear layers, attention scores and attention outputs. Its right-hand side is stored in panels of
/// sixteen outputs:
///
///   float32, float16   panel [inner][16]
///   bfloat16           panel [inner/2][16][2], inner padded with zeros to a multiple of 32
///   coded weights      coded_panel.h
///
/// and its order of summation is fixed for each output element:
///
///   float32, float16   one chain of fused multiply-adds over the inner dimension, from zero
///   bfloat16           for each 32 inner elements, the even and the odd products in two chains from zero; their sum is
///                      added to the accumulator: the order of AMX's tdpbf16ps
///   coded weights      integers, and one chain over runs of 64: product_coded.h
///
/// Left-hand rows are float32; for bfloat16 and coded weights `prepare` rounds them first.
namespace mneme::kernels {

inline constexpr std::int64_t kPanel = 16;

// Ordinary inline functions that kernels call are always_inline: an out-of-line copy compiled for AVX-512 could be the
// one that the linker keeps for everybody (scripts/check_isa_symbols.py holds the objects to it).

[[gnu::always_inline]] constexpr std::int64_t round_up(std::int64_t n, std::int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

/// Length of the inner dimension as stored in panels.
[[gnu::always_inline]] constexpr std::int64_t padded_inner(DType format, std::int64_t inner) {
  return format == DType::kBFloat16 ? round_up(inner, 32) : inner;
}
/// Bytes of one panel.
[[gnu::always_inline]] constexpr std::int64_t panel_bytes(DType format, std::int64_t inner) {
  return padded_inner(format, inner) * kPanel * static_cast<std::int64_t>(size_of(format));
}

/// Where keys and values of one block lie: for each key/value head a key tile (4 panels of 16 tokens, inner = key_dim)
/// and a value tile (value_dim / 16 panels of channels, inner = 64 tokens).
struct BlockLayout {
  DType format = DType::kFloat32;
  std::int64_t n_heads = 0, key_dim = 0, value_dim = 0;

  [[gnu::always_inline]] constexpr std::int64_t key_tile_bytes() const {
    return kBlockTokens / kPanel * panel_bytes(format, key_dim);
  }
  [[gnu::always_inline]] constexpr std::int64_t value_tile_bytes() const {
    return round_up(value_dim, kPanel) / kPanel * panel_bytes(format, kBlockTokens);
  }
  [[gnu::always_inline]] constexpr std::int64_t head_bytes() const { return key_tile_bytes() + value_tile_bytes(); }
  [[gnu::always_inline]] constexpr std::int64_t block_bytes() const { return n_heads * head_bytes(); }

  friend constexpr bool operator==(const BlockLayout&, const BlockLayout&) = default;
};

/// y[m][n] = bias[n] + sum_k x[m][k] w[n][k] for rows m and the columns of some panels.
struct LinearArgs {
  const void* x;                          ///< [n_rows] rows: float32, or what `prepare` wrote
  std::int64_t x_stride;                  ///< bytes from row to row
  const void* panels;                     ///< the first panel
  const float* bias;                      ///< [n_columns] of the same panels, or null
  float* y;                               ///< [n_rows, n_columns]
  std::int64_t y_stride;                  ///< floats from row to row
  std::int64_t n_rows, inner, n_columns;  ///< the last panel may be partly used
};

/// A term of attention scores that depends only on the query head and on how far the key is from the query: entry
/// kBlockTokens - 1 + reach + d of a head is for keys d tokens later. Keys farther away than `reach` count as if they
/// were that far; kBlockTokens - 1 copies of the last value at either end let a block read its 64 values in one piece.
/// (Raffel et al. 2019, arXiv:1910.10683, section 2.1)
struct RelativeBias {
  const float* table = nullptr;  ///< [heads of the call, floats_per_head(reach)], or null: none
  std::int64_t reach = 0;

  [[gnu::always_inline]] static constexpr std::int64_t floats_per_head(std::int64_t reach) {
    return 2 * (reach + kBlockTokens) - 1;
  }
  /// The values of 64 keys, of which the first is `distance` tokens later than the query.
  [[gnu::always_inline]] constexpr const float* values(std::int64_t head, std::int64_t distance) const {
    const std::int64_t least = 1 - kBlockTokens - reach;
    const std::int64_t d = distance < least ? least : distance > reach ? reach : distance;
    return table + head * floats_per_head(reach) + d - least;
  }
};

/// Attention of some query rows of one key/value head over the blocks of one sequence.
/// Row r is query token (first_row + r) / group, at index first_query + that, and head (first_row + r) % group.
struct AttendArgs {
  const void* q;          ///< [n_rows] rows of key_dim: float32, or what `prepare` wrote; not yet scaled
  std::int64_t q_stride;  ///< bytes from row to row
  std::int64_t n_rows, first_row, group, first_query;
  std::int64_t n_keys = 0;         ///< 0: causal, a row sees keys up to its own index; else it sees all before n_keys
  const std::byte* const* blocks;  ///< blocks[b - first_block] for b = first_block ..; null where nothing is visible
  std::int64_t first_block;
  std::int64_t head_offset;  ///< bytes from a block's start to this head's key tile
  std::int64_t key_dim, value_dim;
  float scale;    ///< multiplies the scores (after the product)
  float softcap;  ///< s <- softcap * tanh(s / softcap); 0: none (Gemma 2)
  Visibility visibility;
  RelativeBias bias = {};  ///< added last; its heads are those of the group
};

/// The most rows that one `attend` call takes.
inline constexpr std::int64_t kMaxAttendRows = 48;

/// Floats of the running state of one row: maximum (of scores times log2(e)), sum, padding to 16, and the unnormalized
/// output.
[[gnu::always_inline]] constexpr std::int64_t attend_state_floats(std::int64_t value_dim) {
  return 16 + round_up(value_dim, kPanel);
}

/// What depends on the format of weights.
struct ProductKernels {
  /// Bytes of one prepared row; 0: float32 rows are used as they are.
  std::int64_t (*prepared_bytes)(std::int64_t inner) noexcept;
  /// Rounds rows x [n_rows, inner] (x_stride floats apart) into the form `linear` and `attend` read, padded with zeros.
  void (*prepare)(const float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t inner, void* out) noexcept;
  void (*linear)(const LinearArgs& args) noexcept;
};

/// What depends on the format of cache blocks.
struct FormatKernels : ProductKernels {
  /// Attention over the blocks [begin, end) of one span into states [n_rows, attend_state_floats(value_dim)], which are
  /// initialized by the call. Blocks are taken in order; a block that a row cannot see leaves its state untouched.
  void (*attend)(const AttendArgs& args, std::int64_t begin, std::int64_t end, float* states) noexcept;

  /// Writes n tokens of one head into its tiles: keys [n, key_dim], values [n, value_dim] (strides in floats) at slots
  /// first_slot .. of the block whose key tile starts at `tile`.
  void (*store_tokens)(const BlockLayout& layout, std::byte* tile, std::int64_t first_slot, std::int64_t n,
                       const float* keys, std::int64_t key_stride, const float* values,
                       std::int64_t value_stride) noexcept;
  /// The reverse: exact float32 copies of what is stored.
  void (*load_tokens)(const BlockLayout& layout, const std::byte* tile, std::int64_t first_slot, std::int64_t n,
                      float* keys, std::int64_t key_stride, float* values, std::int64_t value_stride) noexcept;
};

struct ConvArgs;  // state_args.h
struct ScanArgs;
struct MatrixScanArgs;
struct CodeKernels;  // code_kernels.h

/// One instruction set's kernels.
struct Table {
  const char* name;                          ///< "scalar", "avx2", "avx512", "avx512vnni", "amx"
  FormatKernels formats[3];                  ///< by DType
  const CodeKernels* codes;                  ///< for encoded blocks
  ProductKernels coded[kWeightFormats - 3];  ///< by WeightFormat, from kQ4_0 on

  const FormatKernels& of(DType format) const { return formats[static_cast<int>(format)]; }
  const ProductKernels& of(WeightFormat format) const {
    if (!is_coded(format)) return of(static_cast<DType>(format));
    return coded[static_cast<int>(format) - static_cast<int>(WeightFormat::kQ4_0)];
  }

  /// Merges the state of a later span into that of the earlier ones, row by row. An empty span changes nothing.
  void (*merge_states)(float* total, const float* part, std::int64_t n_rows, std::int64_t value_dim) noexcept;
  /// out[r] = state's output / (sum + 2^(log2(e) sink - max)); sinks [group] logits or null (gpt-oss); a row that saw
  /// nothing gives zeros. Row r's head is (first_row + r) % group; out rows lie at out[r].
  void (*finish_states)(const float* states, std::int64_t n_rows, std::int64_t first_row, std::int64_t group,
                        std::int64_t value_dim, const float* sinks, float* const* out) noexcept;

  /// y = x / sqrt(mean(x^2) + eps) * weight, one row of n. x and y may be the same. (Zhang & Sennrich,
  /// arXiv:1910.07467)
  void (*rms_norm)(const float* x, const float* weight, float eps, std::int64_t n, float* y) noexcept;
  /// y = (x - mean(x)) / sqrt(var(x) + eps) * weight + bias, one row of n. (Ba et al. 2016, arXiv:1607.06450)
  void (*layer_norm)(const float* x, const float* weight, const float* bias, float eps, std::int64_t n,
                     float* y) noexcept;
  /// Rotates one head in place: pairs (x[i], x[i + n/2]) by angle i, cosines and sines [n/2] each. (arXiv:2104.09864)
  void (*rotate)(float* x, const float* cosines, const float* sines, std::int64_t n) noexcept;
  /// The largest of n numbers, -infinity of none. NaN counts as infinity.
  float (*largest)(const float* x, std::int64_t n) noexcept;
  /// y += x
  void (*add)(const float* x, std::int64_t n, float* y) noexcept;
  /// y = act(gate) * up, or act(gate) where up is null. silu(x) = x / (1 + exp(-x)); gelu in its tanh and its erf form
  /// (arXiv:1606.08415).
  void (*relu_multiply)(const float* gate, const float* up, std::int64_t n, float* y) noexcept;
  void (*silu_multiply)(const float* gate, const float* up, std::int64_t n, float* y) noexcept;
  void (*gelu_tanh_multiply)(const float* gate, const float* up, std::int64_t n, float* y) noexcept;
  void (*gelu_erf_multiply)(const float* gate, const float* up, std::int64_t n, float* y) noexcept;
  /// y = f(x), n floats; x and y may be the same. Errors: math.h.
  void (*exp)(const float* x, std::int64_t n, float* y) noexcept;
  void (*tanh)(const float* x, std::int64_t n, float* y) noexcept;
  void (*erf)(const float* x, std::int64_t n, float* y) noexcept;
  void (*sigmoid)(const float* x, std::int64_t n, float* y) noexcept;
  void (*softplus)(const float* x, std::int64_t n, float* y) noexcept;

  /// One row of a causal depthwise convolution; some rows of a selective scan, for sixteen channels.
  void (*causal_conv)(const ConvArgs& args) noexcept;
  void (*selective_scan)(const ScanArgs& args) noexcept;
  /// The same for states that are matrices.
  void (*linear_attention)(const MatrixScanArgs& args) noexcept;
  void (*delta_rule)(const MatrixScanArgs& args) noexcept;
};

/// The table in use: the best that the processor has, or what MNEME_ISA=scalar|avx2|avx512|avx512vnni|amx names.
/// Throws Error(kInvalidArgument) on first use if MNEME_ISA names one that is unknown or that this processor lacks.
const Table& active();

/// All tables that this processor can run, the scalar one first (for tests and `mneme inspect`).
std::vector<const Table*> available();

/// Turns rows of a weight matrix into one panel. rows [n_rows <= 16][inner] float32, missing rows become zeros.
void pack_panel(DType format, const float* rows, std::int64_t n_rows, std::int64_t inner, void* panel) noexcept;

}  // namespace mneme::kernels
