#include "mneme/kernels/lanes_scalar.h"
#include "mneme/kernels/table.h"

namespace mneme::kernels {

constinit const Table kScalarTable = make_table<LanesScalar, BFloat16Format<LanesScalar>>("scalar");

}  // namespace mneme::kernels
