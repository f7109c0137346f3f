# ac4k_tests: every tests/cpp/test_*.cpp in one program, linked with the library's objects. Not part
# of `all`: a demo does not wait for tests to compile. `ctest` or tools/check.py runs it.
find_package(GTest QUIET)
if(NOT TARGET GTest::gtest_main AND EXISTS /usr/src/googletest/CMakeLists.txt)
  set(BUILD_GMOCK OFF)
  set(INSTALL_GTEST OFF)
  add_subdirectory(/usr/src/googletest ${PROJECT_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
  add_library(GTest::gtest_main ALIAS gtest_main)
endif()
if(NOT TARGET GTest::gtest_main)
  message(STATUS "AC4K: GoogleTest not found: C++ tests are left out")
  return()
endif()

file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/cpp/test_*.cpp)
if(NOT sources)
  return()
endif()
add_executable(ac4k_tests EXCLUDE_FROM_ALL ${sources})
target_compile_definitions(ac4k_tests PRIVATE AC4K_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
# Test code need not be fast, and GoogleTest's macros take long to optimize.
target_compile_options(ac4k_tests PRIVATE $<$<NOT:$<BOOL:${AC4K_SANITIZE}>>:-O1>)
if(AC4K_SANITIZE) # its reference products, unoptimised, would take a minute
  set_source_files_properties(${PROJECT_SOURCE_DIR}/tests/cpp/test_cpu_gemm.cpp PROPERTIES
                              COMPILE_OPTIONS -O1)
endif()
target_link_libraries(ac4k_tests PRIVATE ac4k_objects GTest::gtest_main)

# A libcuda.so.1 without a GPU, for the tests of the driver layer.
if(EXISTS ${PROJECT_SOURCE_DIR}/tests/cpp/fake_cuda.cpp)
  add_library(fake_cuda MODULE EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tests/cpp/fake_cuda.cpp)
  target_include_directories(fake_cuda PRIVATE ${PROJECT_SOURCE_DIR}/src)
  set_target_properties(fake_cuda PROPERTIES CXX_VISIBILITY_PRESET default)
  add_dependencies(ac4k_tests fake_cuda)
endif()

enable_testing()
add_test(NAME build COMMAND ${CMAKE_COMMAND} --build ${PROJECT_BINARY_DIR} --target ac4k_tests)
add_test(NAME ac4k_tests COMMAND ac4k_tests)
set_tests_properties(build PROPERTIES FIXTURES_SETUP built)
set_tests_properties(ac4k_tests PROPERTIES FIXTURES_REQUIRED built
                     ENVIRONMENT FAKE_LIBCUDA=${PROJECT_BINARY_DIR}/libfake_cuda.so)
