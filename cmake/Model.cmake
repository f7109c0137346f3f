# ac4k_model: a libcuda.so.1 whose GPU is a program (tests/model), and an NVRTC that compiles for it.
# Not part of `all`; `python tools/check.py model` builds and uses it.
file(GLOB model_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/model/*.cpp)
list(FILTER model_sources EXCLUDE REGEX "libnvrtc.cpp$")
add_library(ac4k_model SHARED EXCLUDE_FROM_ALL ${model_sources})
set_target_properties(ac4k_model PROPERTIES OUTPUT_NAME cuda SOVERSION 1)
add_library(ac4k_model_nvrtc SHARED EXCLUDE_FROM_ALL
            ${PROJECT_SOURCE_DIR}/tests/model/libnvrtc.cpp)
set_target_properties(ac4k_model_nvrtc PROPERTIES OUTPUT_NAME nvrtc)
target_link_libraries(ac4k_model_nvrtc PRIVATE ${CMAKE_DL_LIBS})
# The library wants to know one NVRTC from another.
target_link_options(ac4k_model_nvrtc PRIVATE -Wl,--build-id)
add_dependencies(ac4k_model ac4k_model_nvrtc)
foreach(target ac4k_model ac4k_model_nvrtc)
  target_link_libraries(${target} PRIVATE ac4k_options)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  # For this machine, on which it runs; products and sums are rounded one by one.
  target_compile_options(${target} PRIVATE -march=native -ffp-contract=off)
  set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET default
                        LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/model)
endforeach()
