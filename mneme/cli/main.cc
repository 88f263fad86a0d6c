#include <cstdlib>

#include "mneme/cli/program.h"

int main(int argc, char** argv) {
  // Whatever was to be written has been. LibTorch's destructors would only take another 0.1 s.
  std::_Exit(mneme::cli::run_program(argc, argv));
}
