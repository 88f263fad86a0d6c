#include "mneme/cache/codec.h"

#include "mneme/base/error.h"
#include "mneme/ops/block_tensor.h"

namespace mneme {
namespace {

class FloatCodec final : public Codec {
 public:
  explicit FloatCodec(const kernels::BlockLayout& layout) : layout_(layout) {}

  std::string name() const override { return std::string(name_of(layout_.format)); }
  const kernels::BlockLayout& layout() const override { return layout_; }
  std::int64_t block_bytes() const override { return layout_.block_bytes(); }

  void store(ops::Workspace& workspace, std::byte* block, std::int64_t first_slot, std::int64_t n,
             const KeyValueRows& rows, std::int64_t first_row) const override {
    ops::store_tokens(workspace, layout_, block, first_slot, n, rows.keys, rows.key_offset, rows.values,
                      rows.value_offset, first_row);
  }

  std::pair<at::Tensor, at::Tensor> load(const std::byte* block, std::int64_t first_slot, std::int64_t n,
                                         at::Device device) const override {
    return ops::load_tokens(layout_, block, first_slot, n, device);
  }

  void attend(ops::Workspace& workspace, std::span<const ops::AttendSequence> sequences,
              const ops::AttendOptions& options, const ops::Rows& q, std::int64_t q_offset,
              const ops::Rows& out) const override {
    ops::attend(workspace, sequences, options, q, q_offset, out);
  }

 private:
  const kernels::BlockLayout layout_;
};

}  // namespace

std::shared_ptr<const Codec> float_codec(DType dtype, std::int64_t n_heads, std::int64_t key_dim,
                                         std::int64_t value_dim) {
  constexpr std::int64_t kMost = std::int64_t{1} << 24;
  check(n_heads > 0 && key_dim > 0 && value_dim > 0 && n_heads <= kMost && key_dim <= kMost && value_dim <= kMost,
        ErrorKind::kInvalidArgument, "a cache of {} heads of {} and {} cannot be: each must be 1 to {}", n_heads,
        key_dim, value_dim, kMost);
  return std::make_shared<FloatCodec>(
      kernels::BlockLayout{.format = dtype, .n_heads = n_heads, .key_dim = key_dim, .value_dim = value_dim});
}

}  // namespace mneme
