#pragma once

#include <vector>

#include "mneme/kernels/kernels.h"

namespace mneme::kernels {

/// The scalar table first, what this processor has besides, and the AVX-512 and AMX kernels once more on instructions
/// written in plain C++ ("avx512 in C++", "amx in C++"), so that every machine tests what they do.
const std::vector<const Table*>& tables_under_test();

}  // namespace mneme::kernels
