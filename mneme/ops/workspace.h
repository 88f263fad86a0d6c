#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mneme::ops {

/// Memory of one device that is taken once and given back when this dies. Host memory comes zeroed from the operating
/// system in huge pages where it grants them; other devices' memory comes from ATen and is zeroed.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  /// Throws Error(kOutOfMemory) with the bytes asked for.
  DeviceBuffer(std::int64_t n_bytes, at::Device device);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;

  std::byte* data() const noexcept { return data_; }
  std::int64_t n_bytes() const noexcept { return n_bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::int64_t n_bytes_ = 0;
  at::Tensor owner_;  // other devices only
};

/// Scratch memory that only grows: rewound, not freed, so that a steady loop allocates nothing.
class Arena {
 public:
  explicit Arena(at::Device device) : device_(device) {}

  /// Uninitialized memory, 64-byte aligned, valid until the arena is rewound past it.
  std::byte* bytes(std::int64_t n);

  struct Mark {
    std::size_t buffer;
    std::int64_t used;
  };
  Mark mark() const noexcept { return {buffer_, used_}; }
  void rewind(Mark mark) noexcept {
    buffer_ = mark.buffer;
    used_ = mark.used;
  }

  /// How many buffers were ever taken: constant in a steady loop.
  std::int64_t n_allocations() const noexcept { return static_cast<std::int64_t>(buffers_.size()); }
  std::int64_t n_bytes() const noexcept;

 private:
  at::Device device_;
  std::vector<DeviceBuffer> buffers_;
  std::size_t buffer_ = 0;  // the one in use
  std::int64_t used_ = 0;   // bytes of it
};

/// Where a forward pass runs, and the scratch memory that it runs in. Used by one thread at a time.
class Workspace {
 public:
  explicit Workspace(at::Device device) : device_(device), arena_(device), host_arena_(at::kCPU) {}

  at::Device device() const noexcept { return device_; }

  /// Our kernels work on host memory; everything else goes through ATen.
  bool uses_kernels() const noexcept { return device_.is_cpu() && !through_aten_; }
  /// Takes the ATen path on the CPU too: how the tests prove the code of other devices on machines without one.
  void set_through_aten(bool on) noexcept { through_aten_ = on; }

  /// Memory of the device, until the enclosing Scope ends.
  std::byte* bytes(std::int64_t n) { return arena_.bytes(n); }
  float* floats(std::int64_t n) { return reinterpret_cast<float*>(bytes(n * 4)); }
  /// Host memory, whatever the device: for tables of pointers.
  std::byte* host_bytes(std::int64_t n) { return device_.is_cpu() ? arena_.bytes(n) : host_arena_.bytes(n); }

  std::int64_t n_allocations() const noexcept { return arena_.n_allocations() + host_arena_.n_allocations(); }
  std::int64_t n_bytes() const noexcept { return arena_.n_bytes() + host_arena_.n_bytes(); }

  /// Gives back, when it ends, the memory that was taken since it began.
  class Scope {
   public:
    explicit Scope(Workspace& workspace)
        : workspace_(workspace), mark_(workspace.arena_.mark()), host_mark_(workspace.host_arena_.mark()) {}
    ~Scope() {
      workspace_.arena_.rewind(mark_);
      workspace_.host_arena_.rewind(host_mark_);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Workspace& workspace_;
    Arena::Mark mark_, host_mark_;
  };

 private:
  at::Device device_;
  bool through_aten_ = false;
  Arena arena_, host_arena_;
};

/// A float32 matrix that somebody else owns, rows contiguous: what flows between the operations of a forward pass.
struct Rows {
  float* data = nullptr;
  std::int64_t n = 0;
  std::int64_t width = 0;

  float* row(std::int64_t i) const { return data + i * width; }
};

/// The same memory as an ATen tensor [n, width] float32 on the workspace's device (a view).
at::Tensor as_tensor(const Workspace& workspace, const Rows& rows);

/// Sets all elements to zero.
void fill_zero(const Workspace& workspace, const Rows& rows);

/// to = from, rows of one shape.
void copy(const Workspace& workspace, const Rows& from, const Rows& to);

/// to[i] = from[rows[i]].
void select_rows(const Workspace& workspace, const Rows& from, std::span<const std::int64_t> rows, const Rows& to);

/// Matrix of scratch memory.
inline Rows scratch_rows(Workspace& workspace, std::int64_t n, std::int64_t width) {
  return {workspace.floats(n * width), n, width};
}

}  // namespace mneme::ops
