# mneme::torch: LibTorch from the PyPI wheel. find_package(Torch) would ask for a CUDA toolkit, so the two libraries that
# we use are imported by hand. MNEME_TORCH is the wheel's folder `torch` (include/, lib/); scripts/setup.sh puts it into
# the cache. An installed mneme includes this file too: see cmake/mneme-config.cmake.in.
if(NOT MNEME_TORCH_DEFAULT)
  set(MNEME_TORCH_DEFAULT $ENV{HOME}/.cache/mneme/libtorch/torch)
  if(NOT "$ENV{MNEME_CACHE}" STREQUAL "")
    set(MNEME_TORCH_DEFAULT $ENV{MNEME_CACHE}/libtorch/torch)
  elseif(NOT "$ENV{XDG_CACHE_HOME}" STREQUAL "")
    set(MNEME_TORCH_DEFAULT $ENV{XDG_CACHE_HOME}/mneme/libtorch/torch)
  endif()
endif()
set(MNEME_TORCH ${MNEME_TORCH_DEFAULT} CACHE PATH "The folder `torch` of an installed PyPI wheel")
if(NOT EXISTS ${MNEME_TORCH}/lib/libtorch_cpu.so)
  set(missing ${MNEME_TORCH})
  unset(MNEME_TORCH CACHE)  # the next attempt looks again
  message(FATAL_ERROR
    "LibTorch is not at ${missing}; run scripts/setup.sh, or pass -DMNEME_TORCH=<folder `torch` of the wheel>")
endif()

# The wheel's include folder also holds headers of other libraries (fmt 12 among them, where Debian's is 9), which must
# not come before the installed ones: only ATen and what it needs is shown to the compiler.
set(mneme_torch_include ${CMAKE_BINARY_DIR}/torch_include)
foreach(folder ATen c10 torch caffe2)
  file(MAKE_DIRECTORY ${mneme_torch_include})
  file(CREATE_LINK ${MNEME_TORCH}/include/${folder} ${mneme_torch_include}/${folder} SYMBOLIC)
endforeach()

foreach(name c10 torch_cpu)
  add_library(mneme::${name} SHARED IMPORTED GLOBAL)
  set_target_properties(mneme::${name} PROPERTIES
    IMPORTED_LOCATION ${MNEME_TORCH}/lib/lib${name}.so
    INTERFACE_INCLUDE_DIRECTORIES ${mneme_torch_include})
endforeach()
add_library(mneme::torch INTERFACE IMPORTED GLOBAL)
target_link_libraries(mneme::torch INTERFACE mneme::torch_cpu mneme::c10)
# RPATH rather than RUNPATH: LD_LIBRARY_PATH must not bring in another LibTorch.
target_link_options(mneme::torch INTERFACE LINKER:-rpath-link,${MNEME_TORCH}/lib LINKER:--disable-new-dtags)
