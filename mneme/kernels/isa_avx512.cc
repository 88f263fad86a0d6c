#include "mneme/kernels/lanes_avx512.h"
#include "mneme/kernels/table.h"

namespace mneme::kernels {

constinit const Table kAvx512Table = make_table<LanesAvx512, BFloat16Format<LanesAvx512>>("avx512");

}  // namespace mneme::kernels
