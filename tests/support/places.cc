#include "tests/support/places.h"

namespace mneme::testing {

std::string test_data(const std::string& name) { return MNEME_TEST_DATA "/" + name; }

std::string built(const std::string& name) { return MNEME_BINARY_DIR "/" + name; }

}  // namespace mneme::testing
