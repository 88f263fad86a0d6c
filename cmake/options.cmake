# Warnings and sanitizers, for every target of ours. -ffp-contract=off: the order of roundings is part of the product.
add_library(mneme_options INTERFACE)
target_compile_options(mneme_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Werror -ffp-contract=off)
if(MNEME_SANITIZE)
  # -g1: lines for stack traces and nothing more; it halves what is written and linked.
  target_compile_options(mneme_options INTERFACE -fsanitize=${MNEME_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1)
  target_link_options(mneme_options INTERFACE -fsanitize=${MNEME_SANITIZE})
endif()
if(MNEME_BUILD_FUZZERS)
  target_compile_options(mneme_options INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
  # At -O3 it is wrong about std::string (bug 105651: insert and operator+ said to overlap) and about the empty
  # alternatives of std::variant (said to be read uninitialized).
  target_compile_options(mneme_options INTERFACE -Wno-restrict -Wno-maybe-uninitialized)
endif()
