#pragma once

#include "mneme/kernels/kernels.h"

namespace mneme::kernels {

/// What isa_*.cc define. They are constants: naming one runs no code of its instruction set.
extern const Table kScalarTable, kAvx2Table, kAvx512Table, kAvx512VnniTable, kAmxTable;

}  // namespace mneme::kernels
