#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <utility>

#include "mneme/kernels/codes.h"

namespace mneme::ops {

/// What an encoded block on `device` decodes to, in its raw dtype: keys [Hkv, 64, key_dim], values [Hkv, 64,
/// value_dim]. `first` says that it is block 0 of its sequence. This is the decoder of devices without kernels of ours:
/// a product and a sum where those have one fused multiply-add, so a last bit may differ.
std::pair<at::Tensor, at::Tensor> load_codes(const kernels::BlockCodes& codes, const std::byte* block, bool first,
                                             at::Device device);

}  // namespace mneme::ops
