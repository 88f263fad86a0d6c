# LibTorch from the PyPI wheel. find_package(Torch) would ask for a CUDA toolkit, so the two libraries that we use are
# imported by hand. MNEME_TORCH is the wheel's folder `torch` (include/, lib/); scripts/setup.sh puts it into the cache.
set(_cache $ENV{MNEME_CACHE})
if(NOT _cache)
  set(_cache $ENV{XDG_CACHE_HOME})
  if(NOT _cache)
    set(_cache $ENV{HOME}/.cache)
  endif()
  set(_cache ${_cache}/mneme)
endif()
set(MNEME_TORCH ${_cache}/libtorch/torch CACHE PATH "The folder `torch` of an installed PyPI wheel")
if(NOT EXISTS ${MNEME_TORCH}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "LibTorch is not at ${MNEME_TORCH}; run scripts/setup.sh, or pass -DMNEME_TORCH=<folder `torch` of the wheel>")
endif()

foreach(name c10 torch_cpu)
  add_library(mneme_${name} SHARED IMPORTED)
  set_target_properties(mneme_${name} PROPERTIES
    IMPORTED_LOCATION ${MNEME_TORCH}/lib/lib${name}.so
    IMPORTED_LINK_INTERFACE_LIBRARIES ""
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${MNEME_TORCH}/include;${MNEME_TORCH}/include/torch/csrc/api/include")
endforeach()
add_library(mneme_torch INTERFACE)
target_link_libraries(mneme_torch INTERFACE mneme_torch_cpu mneme_c10)
target_link_options(mneme_torch INTERFACE -Wl,-rpath-link,${MNEME_TORCH}/lib)

# One precompiled <ATen/ATen.h>, built once and shared by every target that sees ATen (10 s a file becomes 2.6 s).
function(mneme_use_torch_header target)
  if(NOT TARGET mneme_torch_header)
    file(WRITE ${CMAKE_BINARY_DIR}/torch_header.cc "")
    add_library(mneme_torch_header OBJECT ${CMAKE_BINARY_DIR}/torch_header.cc)
    target_link_libraries(mneme_torch_header PRIVATE mneme_torch mneme_options fmt::fmt nlohmann_json::nlohmann_json)
    target_precompile_headers(mneme_torch_header PRIVATE <ATen/ATen.h> <nlohmann/json.hpp> <fmt/format.h>)
  endif()
  target_precompile_headers(${target} REUSE_FROM mneme_torch_header)
endfunction()
