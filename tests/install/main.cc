#include <mneme/base/error.h>
#include <mneme/base/json.h>
#include <mneme/mneme.h>

#include <iostream>

// Uses the installed headers, calls into the shared library, and catches its exception type on this side.
int main() {
  try {
    mneme::parse_json("{\"half\": ", "consumer");
  } catch (const mneme::Error& error) {
    std::cout << mneme::version() << '\n' << error.what() << '\n';
    return error.kind() == mneme::ErrorKind::kCorruptData ? 0 : 1;
  }
  return 1;
}
