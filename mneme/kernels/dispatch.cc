#include <cstdlib>
#include <initializer_list>
#include <string>

#include "mneme/base/error.h"
#include "mneme/kernels/tables.h"

#ifdef MNEME_X86
#include <cpuid.h>
#endif
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace mneme::kernels {
namespace {

#ifdef MNEME_X86

struct Registers {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Registers cpuid(unsigned leaf, unsigned subleaf = 0) {
  Registers r;
  __get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx);
  return r;
}

constexpr bool has(std::uint64_t bits, std::initializer_list<int> wanted) {
  for (const int bit : wanted) {
    if (!(bits >> bit & 1)) return false;
  }
  return true;
}

/// The register files that the operating system saves: XCR0, or none without OSXSAVE.
std::uint64_t saved_state() {
  if (!has(cpuid(1).ecx, {27})) return 0;
  unsigned low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return std::uint64_t{high} << 32 | low;
}

/// Linux gives the 8 KB of tile registers only to a process that asks (arch_prctl, since 5.16).
bool tiles_permitted() {
#ifdef __linux__
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

/// Bits as in Intel's manual, CPUID leaves 1 and 7, and XCR0: 1, 2 SSE and AVX; 5 to 7 AVX-512; 17, 18 AMX.
void append_vector_tables(std::vector<const Table*>& tables) {
  const std::uint64_t saved = saved_state();
  const Registers basic = cpuid(1), extended = cpuid(7);
  if (!has(saved, {1, 2}) || !has(basic.ecx, {12, 28, 29}) || !has(extended.ebx, {5})) return;  // FMA, AVX, F16C, AVX2
  tables.push_back(&kAvx2Table);
  if (!has(saved, {5, 6, 7}) || !has(extended.ebx, {16, 17, 30, 31})) return;  // F, DQ, BW, VL
  tables.push_back(&kAvx512Table);
  if (!has(extended.ecx, {11})) return;  // VNNI
  tables.push_back(&kAvx512VnniTable);
  if (!has(cpuid(7, 1).eax, {5})) return;                                                       // AVX512_BF16
  if (!has(saved, {17, 18}) || !has(extended.edx, {22, 24, 25}) || !tiles_permitted()) return;  // BF16, TILE, INT8
  tables.push_back(&kAmxTable);
}

#else

void append_vector_tables(std::vector<const Table*>&) {}

#endif

const Table& choose() {
  const std::vector<const Table*> tables = available();
  const char* wanted = std::getenv("MNEME_ISA");
  if (!wanted || !*wanted) return *tables.back();
  std::string names;
  for (const Table* table : tables) {
    if (std::string_view(table->name) == wanted) return *table;
    names += names.empty() ? table->name : std::string(", ") + table->name;
  }
  throw Error(ErrorKind::kInvalidArgument, "MNEME_ISA={} is not among this processor's instruction sets; use one of {}",
              wanted, names);
}

}  // namespace

const Table& active() {
  static const Table& table = choose();
  return table;
}

std::vector<const Table*> available() {
  static const std::vector<const Table*> tables = [] {
    std::vector<const Table*> found = {&kScalarTable};
    append_vector_tables(found);
    return found;
  }();
  return tables;
}

}  // namespace mneme::kernels
