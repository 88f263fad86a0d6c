#include "mneme/kernels/lanes_avx512.h"
#include "mneme/kernels/product_amx.h"
#include "mneme/kernels/product_coded_amx.h"
#include "mneme/kernels/table.h"

namespace mneme::kernels {
namespace {

/// The instructions themselves, as inline assembly: GCC 12's intrinsics take no template argument for a register, and
/// do not say that they read and write memory (a configuration on the stack was loaded half written).
struct AmxTiles {
  struct alignas(64) Configuration {
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {};
    std::uint8_t rows[16] = {};
  };
  static_assert(sizeof(Configuration) == 64);

  static void configure(int rows_0, int rows_1) noexcept {
    Configuration configuration{.row_bytes = {64, 64, 64, 64, 64, 64, 64, 64}};
    const int rows[8] = {rows_0, rows_0, rows_1, rows_1, rows_0, rows_1, 16, 16};
    for (int tile = 0; tile < 8; ++tile) configuration.rows[tile] = static_cast<std::uint8_t>(rows[tile]);
    asm volatile("ldtilecfg %0" ::"m"(configuration));
  }
  /// By loading zeros: the first product after TILEZERO takes fifty cycles more (Sapphire Rapids, measured).
  template <int T>
  static void zero() noexcept {
    alignas(64) static constexpr std::byte kZeros[64] = {};
    load<T>(kZeros, 0);
  }
  template <int T>
  static void clear() noexcept {
    asm volatile("tilezero %%tmm%c0" ::"i"(T));
  }
  template <int T>
  static void load(const void* from, std::int64_t stride) noexcept {
    asm volatile("tileloadd (%1,%2,1), %%tmm%c0" ::"i"(T), "r"(from), "r"(stride) : "memory");
  }
  template <int T>
  static void store(void* to, std::int64_t stride) noexcept {
    asm volatile("tilestored %%tmm%c0, (%1,%2,1)" ::"i"(T), "r"(to), "r"(stride) : "memory");
  }
  template <int Sum, int Rows, int Panel>
  static void dot() noexcept {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(Sum), "i"(Rows), "i"(Panel));
  }
  template <int Sum, int Rows, int Panel>
  static void dot_bytes() noexcept {
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(Sum), "i"(Rows), "i"(Panel));
  }
  template <int Sum, int Rows, int Panel>
  static void dot_unsigned() noexcept {
    asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(Sum), "i"(Rows), "i"(Panel));
  }
  static void to_bfloat16(LanesAvx512Vnni from, std::uint16_t* to) noexcept {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(from.v)));
  }
  static void to_bfloat16(LanesAvx512Vnni low, LanesAvx512Vnni high, std::uint16_t* to) noexcept {
    _mm512_storeu_si512(to, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high.v, low.v)));
  }
  static void release() noexcept { asm volatile("tilerelease"); }
};

using Lanes = LanesAvx512Vnni;
template <WeightFormat kFormat>
using Coded = AmxCodedProduct<Lanes, AmxTiles, kFormat>;

}  // namespace

constinit const Table kAmxTable = make_table<Lanes, AmxFormat<Lanes, AmxTiles>, Coded>("amx");

}  // namespace mneme::kernels
