// Compiled for AVX2, and so kept free of whatever other files could share. The lanes have another name here: this copy
// of their code must not be the one that the kernels are linked with.
#include "tests/kernels/lanes_operations.h"

#ifdef __AVX2__
#define LanesAvx2 LanesAvx2UnderTest
#include "mneme/kernels/lanes_avx2.h"
#undef LanesAvx2

namespace mneme::kernels {

const ApplyAll kApplyAvx2 = apply_all<LanesAvx2UnderTest>;
const MultiplyCodes kMultiplyCodesAvx2 = multiply_codes<LanesAvx2UnderTest>;

}  // namespace mneme::kernels
#else

namespace mneme::kernels {

const ApplyAll kApplyAvx2 = nullptr;
const MultiplyCodes kMultiplyCodesAvx2 = nullptr;

}  // namespace mneme::kernels
#endif
