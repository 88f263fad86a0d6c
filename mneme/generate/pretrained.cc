#include "mneme/generate/pretrained.h"

#include "mneme/base/error.h"
#include "mneme/ops/linear.h"

namespace mneme {

Arithmetic arithmetic_of(std::optional<at::ScalarType> dtype) {
  if (!dtype) return {};
  return *dtype == at::kChar ? Arithmetic::int8() : Arithmetic(ops::dtype_of(*dtype));
}

}  // namespace mneme
