# mneme_use_torch_header(<target>): one precompiled <ATen/ATen.h>, built once and shared by every target that sees ATen
# (10 s a file becomes 2.6 s).
function(mneme_use_torch_header target)
  if(NOT TARGET mneme_torch_header)
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/torch_header.cc CONTENT "")
    add_library(mneme_torch_header OBJECT ${CMAKE_BINARY_DIR}/torch_header.cc)
    target_link_libraries(mneme_torch_header PRIVATE mneme::torch mneme_options fmt::fmt nlohmann_json::nlohmann_json)
    target_precompile_headers(mneme_torch_header PRIVATE <ATen/ATen.h> <nlohmann/json.hpp> <fmt/format.h>)
  endif()
  target_precompile_headers(${target} REUSE_FROM mneme_torch_header)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")
    # The header was compiled with -fPIC, and the compiler takes it with the same flag only.
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
endfunction()
