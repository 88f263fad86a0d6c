#include "mneme/kernels/lanes_avx2.h"
#include "mneme/kernels/table.h"

namespace mneme::kernels {

constinit const Table kAvx2Table = make_table<LanesAvx2, BFloat16Format<LanesAvx2>>("avx2");

}  // namespace mneme::kernels
