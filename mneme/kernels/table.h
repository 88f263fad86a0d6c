#pragma once

#include <utility>

#include "mneme/kernels/attend_codes.h"
#include "mneme/kernels/attention_stepped.h"
#include "mneme/kernels/block_store.h"
#include "mneme/kernels/conv.h"
#include "mneme/kernels/elementwise.h"
#include "mneme/kernels/fit_codes.h"
#include "mneme/kernels/hadamard.h"
#include "mneme/kernels/linear.h"
#include "mneme/kernels/matrix_scan.h"
#include "mneme/kernels/product_bfloat16.h"
#include "mneme/kernels/product_coded.h"
#include "mneme/kernels/product_float.h"
#include "mneme/kernels/scan.h"
#include "mneme/kernels/tables.h"

namespace mneme::kernels {

template <class L, class Format>
constexpr ProductKernels make_product_kernels() {
  return {.prepared_bytes = Format::prepared_bytes, .prepare = Format::prepare, .linear = linear<L, Format>};
}

template <class L, class Format>
constexpr FormatKernels make_format_kernels() {
  FormatKernels kernels{};
  static_cast<ProductKernels&>(kernels) = make_product_kernels<L, Format>();
  kernels.attend = attend<L, Format>;
  kernels.store_tokens = store_tokens<L, Format::kFormat>;
  kernels.load_tokens = load_tokens<L, Format::kFormat>;
  return kernels;
}

template <class L, template <WeightFormat> class Coded, int... kIndexes>
constexpr void set_coded(Table& table, std::integer_sequence<int, kIndexes...>) {
  constexpr int kFirst = static_cast<int>(WeightFormat::kQ4_0);
  ((table.coded[kIndexes] = make_product_kernels<L, Coded<static_cast<WeightFormat>(kFirst + kIndexes)>>()), ...);
}

template <class L>
struct OnLanes {
  template <WeightFormat kFormat>
  using Coded = CodedProduct<L, kFormat>;
};

template <class L, class Format>
constexpr CodeFormatKernels make_code_kernels() {
  return {.decode_head = decode_head<L, Format::kFormat>, .attend = attend_codes<L, Format>};
}

template <class L, class BFloat16>
inline constexpr CodeKernels kCodeKernels = {
    .formats = {make_code_kernels<L, Float32Format<L>>(), make_code_kernels<L, BFloat16>(),
                make_code_kernels<L, Float16Format<L>>()},
    .fit_min_max = fit_min_max<L>,
    .fit_least_squares = fit_least_squares<L>,
    .fit_symmetric = fit_symmetric<L>,
    .start_half_quadratic = start_half_quadratic<L>,
    .step_half_quadratic = step_half_quadratic<L>,
    .finish_half_quadratic = finish_half_quadratic<L>,
    .hadamard = hadamard<L>};

/// Every kernel compiled over one Lanes type, with the products of bfloat16 and of integers that its instruction set
/// has.
template <class L, class BFloat16, template <WeightFormat> class Coded = OnLanes<L>::template Coded>
constexpr Table make_table(const char* name) {
  Table table{};
  table.name = name;
  table.formats[static_cast<int>(DType::kFloat32)] = make_format_kernels<L, Float32Format<L>>();
  table.formats[static_cast<int>(DType::kBFloat16)] = make_format_kernels<L, BFloat16>();
  table.formats[static_cast<int>(DType::kFloat16)] = make_format_kernels<L, Float16Format<L>>();
  table.codes = &kCodeKernels<L, BFloat16>;
  set_coded<L, Coded>(table, std::make_integer_sequence<int, kWeightFormats - 3>());
  table.merge_states = merge_states<L>;
  table.finish_states = finish_states<L>;
  table.rms_norm = rms_norm<L>;
  table.layer_norm = layer_norm<L>;
  table.rotate = rotate<L>;
  table.add = add<L>;
  table.largest = largest<L>;
  table.relu_multiply = activate<L, relu<L>>;
  table.silu_multiply = activate<L, silu<L>>;
  table.gelu_tanh_multiply = activate<L, gelu_tanh<L>>;
  table.gelu_erf_multiply = activate<L, gelu_erf<L>>;
  table.exp = map<L, exp<L>>;
  table.tanh = map<L, tanh<L>>;
  table.erf = map<L, erf<L>>;
  table.sigmoid = map<L, sigmoid<L>>;
  table.softplus = map<L, softplus<L>>;
  table.causal_conv = causal_conv<L>;
  table.selective_scan = selective_scan<L>;
  table.linear_attention = matrix_scan<L, /*delta=*/false>;
  table.delta_rule = matrix_scan<L, /*delta=*/true>;
  return table;
}

}  // namespace mneme::kernels
