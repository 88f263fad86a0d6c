#include "mneme/kernels/lanes_avx512.h"
#include "mneme/kernels/table.h"

namespace mneme::kernels {

constinit const Table kAvx512VnniTable = make_table<LanesAvx512Vnni, BFloat16Format<LanesAvx512Vnni>>("avx512vnni");

}  // namespace mneme::kernels
