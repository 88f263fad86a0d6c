#pragma once

/// exp, tanh, erf, sigmoid and softplus of sixteen lanes, the same bits in every lane and on every instruction set
/// (ATen's and libm's differ between vector bodies and tails, and between machines).
///
/// Largest errors found over every third float (tests/kernels/math_test.cc samples them again), in units in the last
/// place: exp 0.94, exp2 2.0, tanh 1.37, erf 1.09, sigmoid 2.48, softplus 2.7. A NaN stays a NaN. exp is zero below
/// 2^-126, whether the processor flushes denormals or not. The polynomials are minimax fits with float32 coefficients.
namespace mneme::kernels {

inline constexpr float kLog2E = 0x1.715476p+0f;

/// c[0] + c[1] x + c[2] x^2 + ..., by Horner's rule.
template <class L, int N>
[[gnu::always_inline]] inline L polynomial(L x, const float (&c)[N]) noexcept {
  L sum = L::set1(c[N - 1]);
  for (int i = N - 2; i >= 0; --i) sum = L::fma(sum, x, L::set1(c[i]));
  return sum;
}

/// e^x = 2^n e^r with x = n ln 2 + r. exp(0) is 1 exactly. kPositive: x may be above zero; the bits are the same.
template <class L, bool kPositive = true>
[[gnu::always_inline]] inline L exp(L x) noexcept {
  constexpr float kLn2High = 0x1.62e43p-1f, kLn2Low = -0x1.05c61p-29f;  // n * high is exact
  constexpr float kSmallest = -0x1.5d589ep+6f;                          // ln 2^-126
  constexpr float kTail[] = {0x1.fffffcp-2f, 0x1.55557ep-3f,  0x1.555884p-5f,
                             0x1.10db5ap-7f, 0x1.6aa308p-10f, 0x1.e83c54p-13f};  // (e^r - 1 - r) / r^2

  // Constants come first: of two operands, min and max return the second if either is a NaN.
  const L bounded = L::max(L::set1(kSmallest), kPositive ? L::min(L::set1(89.0f), x) : x);
  // The last half step before infinity belongs to n = 127: 2^128 is no float. The fit covers r up to ln 2 for it.
  const L nearest = L::round(bounded * L::set1(kLog2E));
  const L n = kPositive ? L::min(L::set1(127.0f), nearest) : nearest;
  const L r = L::fma(n, L::set1(-kLn2Low), L::fma(n, L::set1(-kLn2High), bounded));
  const L one = L::set1(1.0f);
  const L power = L::times_pow2(L::fma(L::fma(polynomial<L>(r, kTail), r, one), r, one), n);
  return L::if_less(x, L::set1(kSmallest), L::zero(), power);
}

/// 2^x = 2^n 2^r with x = n + r, for x up to zero or little above it: half the work of exp. 2^0 is 1 exactly, and what
/// is below 2^-126 is zero where the processor flushes denormals.
template <class L>
[[gnu::always_inline]] inline L exp2(L x) noexcept {
  constexpr float kRest[] = {0x1.62e42ap-1f, 0x1.ebf9c2p-3f, 0x1.c6b6dap-5f, 0x1.3ce8b2p-7f,
                             0x1.5bd97cp-10f};  // (2^r - 1) / r
  const L r = L::beyond_round(x);
  return L::times_pow2_of(L::fma(polynomial<L>(r, kRest), r, L::set1(1.0f)), r, x);
}

/// Odd polynomial near zero, 1 - 2 / (e^2|x| + 1) beyond.
template <class L>
[[gnu::always_inline]] inline L tanh(L x) noexcept {
  constexpr float kNear[] = {-0x1.555532p-2f, 0x1.1106f6p-3f, -0x1.b835a4p-5f, 0x1.51f8cep-6f,
                             -0x1.750ce2p-8f};  // (tanh x / x - 1) / x^2 in x^2
  const L zero = L::zero(), one = L::set1(1.0f);
  const L magnitude = L::max(x, zero - x), square = x * x;
  const L near = L::fma(x * square, polynomial<L>(square, kNear), x);
  const L far = one - L::set1(2.0f) / (exp<L>(magnitude + magnitude) + one);
  return L::if_less(magnitude, L::set1(0.625f), near, L::if_less(x, zero, zero - far, far));
}

/// Odd polynomial near zero, 1 - exp(ln erfc |x|) beyond.
template <class L>
[[gnu::always_inline]] inline L erf(L x) noexcept {
  constexpr float kNear[] = {0x1.06eba6p-3f,  -0x1.8126eep-2f, 0x1.ce1bfp-4f,
                             -0x1.b6a24ep-6f, 0x1.47c716p-8f,  -0x1.3c6124p-11f};  // erf x / x - 1 in x^2
  constexpr float kLogRest[] = {-0x1.407eecp-13f, -0x1.20bb12p+0f, -0x1.4614e8p-1f, -0x1.aace62p-4f,
                                0x1.6e4efap-6f,   -0x1.933660p-9f, 0x1.a2060ap-13f};  // ln erfc x on [0.89, 4]
  const L zero = L::zero(), one = L::set1(1.0f);
  const L magnitude = L::max(x, zero - x);
  const L near = L::fma(x, polynomial<L>(x * x, kNear), x);
  const L far = one - exp<L>(polynomial<L>(L::min(L::set1(4.0f), magnitude), kLogRest));
  return L::if_less(magnitude, L::set1(0.9f), near, L::if_less(x, zero, zero - far, far));
}

/// 1 / (1 + e^-x)
template <class L>
[[gnu::always_inline]] inline L sigmoid(L x) noexcept {
  const L one = L::set1(1.0f);
  return one / (one + exp<L>(L::zero() - x));
}

/// ln(1 + e^x) = max(x, 0) + ln(1 + t) with t = e^-|x|, and ln(1 + t) = 2 atanh(s) with s = t / (2 + t).
template <class L>
[[gnu::always_inline]] inline L softplus(L x) noexcept {
  constexpr float kAtanh[] = {0x1.5555p-2f, 0x1.99d2bap-3f, 0x1.1eb388p-3f, 0x1.1f00c6p-3f};  // (atanh s / s - 1) / s^2
  const L zero = L::zero();
  const L t = exp<L>(zero - L::max(x, zero - x));
  const L s = t / (t + L::set1(2.0f)), square = s * s, twice = s + s;
  return L::max(zero, x) + L::fma(twice * square, polynomial<L>(square, kAtanh), twice);
}

}  // namespace mneme::kernels
