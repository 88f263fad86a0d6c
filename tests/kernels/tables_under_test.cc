#include "tests/kernels/tables_under_test.h"

#include "mneme/kernels/product_amx.h"
#include "mneme/kernels/table.h"
#include "tests/kernels/fake_avx512.h"
#include "tests/kernels/fake_tiles.h"

namespace mneme::kernels {
namespace {

using Fake = LanesFakeAvx512;
constinit const Table kFakeAvx512 = make_table<Fake, BFloat16Format<Fake>>("avx512 in C++");
constinit const Table kFakeAmx = make_table<Fake, AmxFormat<Fake, FakeTiles>>("amx in C++");

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
