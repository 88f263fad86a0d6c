#pragma once

#include "mneme/kernels/code_kernels.h"
#include "mneme/kernels/math.h"

/// Codes and scales of sixteen groups at once, one in each lane.
namespace mneme::kernels {

inline constexpr float kLargestFloat16 = 65504.0f;

template <class L>
[[gnu::always_inline]] inline L within(L x, L least, L most) {
  return L::max(L::min(x, most), least);
}

/// Rounds to float16, larger magnitudes than it has to its largest; writes the bits and gives what they mean.
template <class L>
[[gnu::always_inline]] inline L put_float16(L x, std::uint16_t* to) {
  const L most = L::set1(kLargestFloat16);
  within(x, L::zero() - most, most).store_float16(to);
  return L::load_float16(to);
}

template <class L>
[[gnu::always_inline]] inline void find_range(const FitArgs& args, L& least, L& most) {
  least = most = L::load(args.x);
  for (std::int64_t i = 1; i < args.n; ++i) {
    const L x = L::load(args.x + i * 16);
    least = L::min(least, x);
    most = L::max(most, x);
  }
}

/// s = (max - min) / (2^b - 1), code = round((x - min) / s): a constant group has code 0.
template <class L>
void fit_min_max(const FitArgs& args) noexcept {
  L least, most;
  find_range(args, least, most);
  const L last = L::set1(static_cast<float>((1 << args.bits) - 1)), scale = (most - least) / last;
  for (std::int64_t i = 0; i < args.n; ++i) {
    // 0 / 0 of a constant group: max gives its second operand where the first is no number.
    const L steps = L::max(L::round((L::load(args.x + i * 16) - least) / scale), L::zero());
    L::min(steps, last).store(args.codes + i * 16);
  }
  put_float16(scale, args.scales);
  put_float16(least, args.offsets);
}

template <class L>
[[gnu::always_inline]] inline L nearest_code(L x, L scale, L offset, L last) {
  return within(L::round((x - offset) / scale), L::zero(), last);
}

/// The scale and offset that minimize sum (x - (s code + o))^2 for the codes that s and o give: those of fit_min_max,
/// or what Lloyd's iterations (round, then regress x on the codes) make of several shares of the range, whichever is
/// best after rounding to float16. Fewer bits gain more from clipping.
template <class L>
void fit_least_squares(const FitArgs& args) noexcept {
  constexpr int kRefits = 3;
  const int n_starts = args.bits < 8 ? 3 : 1;
  const float step = args.bits == 2 ? 0.2f : 0.08f;
  L least, most;
  find_range(args, least, most);
  const L range = most - least, last = L::set1(static_cast<float>((1 << args.bits) - 1));
  const L n = L::set1(static_cast<float>(args.n));
  L best_error = L::set1(__builtin_inff()), best_scale = L::zero(), best_offset = least;
  alignas(64) std::uint16_t halves[16];
  const auto try_out = [&](L scale, L offset) {
    scale = put_float16(scale, halves);
    offset = put_float16(offset, halves);
    L error = L::zero();
    for (std::int64_t i = 0; i < args.n; ++i) {
      const L number = L::load(args.x + i * 16);
      const L miss = number - L::fma(nearest_code(number, scale, offset, last), scale, offset);
      error = L::fma(miss, miss, error);
    }
    best_scale = L::if_less(error, best_error, scale, best_scale);
    best_offset = L::if_less(error, best_error, offset, best_offset);
    best_error = L::min(error, best_error);
  };
  for (int start = 0; start < n_starts; ++start) {
    const float clipped = step * static_cast<float>(start);
    L scale = range * L::set1(1.0f - clipped) / last, offset = L::fma(range, L::set1(clipped / 2), least);
    if (start == 0) try_out(scale, offset);
    for (int refit = 0; refit < kRefits; ++refit) {
      L c = L::zero(), cc = L::zero(), x = L::zero(), cx = L::zero();
      for (std::int64_t i = 0; i < args.n; ++i) {
        const L number = L::load(args.x + i * 16), code = nearest_code(number, scale, offset, last);
        c = c + code;
        cc = L::fma(code, code, cc);
        x = x + number;
        cx = L::fma(code, number, cx);
      }
      const L spread = n * cc - c * c, slope = (n * cx - c * x) / spread;
      scale = L::if_less(L::zero(), spread, slope, scale);  // one code for all says nothing of the scale
      offset = (x - scale * c) / n;
    }
    try_out(scale, offset);
  }
  best_scale = put_float16(best_scale, args.scales);
  best_offset = put_float16(best_offset, args.offsets);
  for (std::int64_t i = 0; i < args.n; ++i)
    nearest_code(L::load(args.x + i * 16), best_scale, best_offset, last).store(args.codes + i * 16);
}

/// s = max |x| / 127, code = 128 + round(x / s), with s as it is stored.
template <class L>
void fit_symmetric(const FitArgs& args) noexcept {
  L largest = L::zero();
  for (std::int64_t i = 0; i < args.n; ++i) {
    const L x = L::load(args.x + i * 16);
    largest = L::max(largest, L::max(x, L::zero() - x));
  }
  const L most = L::set1(127.0f), middle = L::set1(128.0f);
  const L scale = put_float16(largest / most, args.scales);
  for (std::int64_t i = 0; i < args.n; ++i) {
    const L steps = within(L::round(L::load(args.x + i * 16) / scale), L::zero() - most, most);
    L::if_less(L::zero(), scale, middle + steps, middle).store(args.codes + i * 16);
  }
}

/// x^-0.3 for x > 0.
template <class L>
[[gnu::always_inline]] inline L to_minus_three_tenths(L x) {
  // log2 x = e + log2 m with m in [1, 2): a fit in m - 1, off by 3e-7 at most.
  constexpr float kLog2[] = {3.1912879e-07f, 1.4426521f,  -0.7203868f,  0.4725003f,
                             -0.3231175f,    0.19042252f, -0.07684962f, 0.014778893f};
  using Words = typename L::Words;
  const Words bits = Words::bits_of(x);
  const L exponent = (bits >> 23 & 0xffu).to_floats() - L::set1(127.0f);
  const Words one = Words::bits_of(L::set1(1.0f));
  const L mantissa = ((bits & 0x7fffffu) | one).as_floats() - L::set1(1.0f);
  return exp<L>((exponent + polynomial<L>(mantissa, kLog2)) * L::set1(-0.3f * 0.69314718f));
}

/// Half-quadratic quantization keeps s and the zero point z of code = round(x / s + z); 1 / s is at most 2e4, and 1
/// where the group hardly varies.
template <class L>
void start_half_quadratic(const HalfQuadraticArgs& args) noexcept {
  L least, most;
  find_range(args.fit, least, most);
  const L last = L::set1(static_cast<float>((1 << args.fit.bits) - 1)), range = most - least;
  const L inverse = L::if_less(L::set1(1e-4f), range, L::min(last / range, L::set1(2e4f)), L::set1(1.0f));
  inverse.store(args.inverse_scales);
  ((L::zero() - least) * inverse).store(args.zeros);
}

template <class L>
[[gnu::always_inline]] inline L half_quadratic_code(L x, L inverse, L zero, L last) {
  return within(L::round(x * inverse + zero), L::zero(), last);
}

/// One proximal step: with r = s (code - z) and the shrunk error w = sign(x - r) max(|x - r| - |x - r|^-0.3 / 10, 0),
/// z <- mean(code - (x - w) / s). Gives the sum of |x - r| before it.
template <class L>
float step_half_quadratic(const HalfQuadraticArgs& args) noexcept {
  const FitArgs& fit = args.fit;
  const L last = L::set1(static_cast<float>((1 << fit.bits) - 1)), nothing = L::zero();
  const L inverse = L::load(args.inverse_scales), zero = L::load(args.zeros);
  L errors = nothing, zeros = nothing;
  for (std::int64_t i = 0; i < fit.n; ++i) {
    const L x = L::load(fit.x + i * 16), code = half_quadratic_code(x, inverse, zero, last);
    const L error = x - (code - zero) / inverse, magnitude = L::max(error, nothing - error);
    errors = errors + magnitude;
    L kept = nothing;
    if (magnitude.largest() > 0.16f) {  // smaller ones shrink to nothing
      kept = L::max(magnitude - L::set1(0.1f) * to_minus_three_tenths<L>(magnitude), nothing);
      kept = L::if_less(L::set1(0.16f), magnitude, kept, nothing);
      kept = L::if_less(error, nothing, nothing - kept, kept);
    }
    zeros = zeros + (code - (x - kept) * inverse);
  }
  (zeros / L::set1(static_cast<float>(fit.n))).store(args.zeros);
  return errors.sum();
}

template <class L>
void finish_half_quadratic(const HalfQuadraticArgs& args) noexcept {
  const FitArgs& fit = args.fit;
  const L last = L::set1(static_cast<float>((1 << fit.bits) - 1));
  const L inverse = L::load(args.inverse_scales), zero = L::load(args.zeros);
  for (std::int64_t i = 0; i < fit.n; ++i)
    half_quadratic_code(L::load(fit.x + i * 16), inverse, zero, last).store(fit.codes + i * 16);
  put_float16(L::set1(1.0f) / inverse, fit.scales);
  put_float16((L::zero() - zero) / inverse, fit.offsets);
}

}  // namespace mneme::kernels
