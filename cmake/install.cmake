# cmake --install: the library with its headers, the program, and what find_package(mneme) reads.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/mneme)

install(TARGETS mneme EXPORT mneme-targets)
install(TARGETS mneme_program)
install(TARGETS mneme_tasks_module LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/mneme)
install(EXPORT mneme-targets NAMESPACE mneme:: DESTINATION ${package_dir})
install(DIRECTORY mneme/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/mneme FILES_MATCHING PATTERN "*.h" PATTERN cli EXCLUDE PATTERN tasks EXCLUDE)

configure_package_config_file(cmake/mneme-config.cmake.in ${CMAKE_BINARY_DIR}/mneme-config.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/mneme-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/mneme-config.cmake ${CMAKE_BINARY_DIR}/mneme-config-version.cmake cmake/libtorch.cmake
  DESTINATION ${package_dir})
