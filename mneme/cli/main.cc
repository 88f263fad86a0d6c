#include "mneme/cli/program.h"

int main(int argc, char** argv) { return mneme::cli::run_program(argc, argv); }
