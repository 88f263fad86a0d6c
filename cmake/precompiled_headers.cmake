# mneme_precompile(<target> <test|torch>): one precompiled header for all targets that include the same large headers
# (a file that sees ATen takes 2.6 s where it took 10).
set(mneme_test_header <gmock/gmock.h> <gtest/gtest.h> <nlohmann/json.hpp> <fmt/format.h>)
set(mneme_test_header_libraries GTest::gtest GTest::gmock)
set(mneme_torch_header <ATen/ATen.h> <nlohmann/json.hpp> <fmt/format.h>)
set(mneme_torch_header_libraries mneme::torch)

function(mneme_precompile target kind)
  set(header mneme_${kind}_header)
  if(NOT TARGET ${header})
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/${kind}_header.cc CONTENT "")
    add_library(${header} OBJECT ${CMAKE_BINARY_DIR}/${kind}_header.cc)
    target_link_libraries(${header} PRIVATE ${${header}_libraries} mneme_options fmt::fmt nlohmann_json::nlohmann_json)
    target_precompile_headers(${header} PRIVATE ${${header}})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${header})
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")
    # The header was compiled with -fPIC, and the compiler takes it with the same flag only.
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
endfunction()
