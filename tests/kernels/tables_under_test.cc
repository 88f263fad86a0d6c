#include "tests/kernels/tables_under_test.h"

#include "mneme/kernels/product_amx.h"
#include "mneme/kernels/product_coded_amx.h"
#include "mneme/kernels/table.h"
#include "tests/kernels/fake_avx512.h"
#include "tests/kernels/fake_tiles.h"

namespace mneme::kernels {
namespace {

using Fake = LanesFakeAvx512;
using FakeVnni = LanesFakeAvx512Vnni;
constinit const Table kFakeAvx512 = make_table<Fake, BFloat16Format<Fake>>("avx512 in C++");
// On the lanes of VNNI, so that those are tested too.
template <WeightFormat kFormat>
using FakeAmxCoded = AmxCodedProduct<FakeVnni, FakeTiles, kFormat>;
constinit const Table kFakeAmx = make_table<FakeVnni, AmxFormat<FakeVnni, FakeTiles>, FakeAmxCoded>("amx in C++");

}  // namespace

const std::vector<const Table*>& tables_under_test() {
  static const std::vector<const Table*> tables = [] {
    std::vector<const Table*> all = available();
    all.push_back(&kFakeAvx512);
    all.push_back(&kFakeAmx);
    return all;
  }();
  return tables;
}

}  // namespace mneme::kernels
