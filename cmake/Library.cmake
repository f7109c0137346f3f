# libac4k, from an object library that the C++ tests share: tests reach the internals, which the
# shared library hides.

# Order matters. An inline function that the compiler did not inline is emitted in every object
# that uses it and the linker keeps the first copy, so objects compiled for the plain CPU come
# before those compiled with wider instructions: no AVX-512 copy can end up on the generic path.
set(AC4K_CPU_LEVELS generic)
set(AC4K_CPU_FLAGS_avx2 -mavx2 -mfma -mf16c)
# No more than detect() in src/cpu/dispatch.cpp asks the CPU for; AMX instructions are assembly.
set(AC4K_CPU_FLAGS_avx512 ${AC4K_CPU_FLAGS_avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl
    -mprefer-vector-width=512)
set(AC4K_CPU_FLAGS_amx ${AC4K_CPU_FLAGS_avx512})
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  list(APPEND AC4K_CPU_LEVELS avx2 avx512 amx)
endif()

set(src ${PROJECT_SOURCE_DIR}/src)
file(GLOB_RECURSE AC4K_SOURCES CONFIGURE_DEPENDS ${src}/core/*.cpp ${src}/gguf/*.cpp
     ${src}/ops/*.cpp ${src}/cuda/driver/*.cpp ${src}/rocm/driver/*.cpp)
file(GLOB AC4K_CPU_SOURCES CONFIGURE_DEPENDS ${src}/cpu/*.cpp ${src}/cpu/common/*.cpp)
list(APPEND AC4K_SOURCES ${AC4K_CPU_SOURCES})
set(kernel_flags $<$<BOOL:${AC4K_SANITIZE}>:-O1>) # source flags come after the target's
foreach(level IN LISTS AC4K_CPU_LEVELS)
  file(GLOB_RECURSE level_sources CONFIGURE_DEPENDS ${src}/cpu/${level}/*.cpp)
  set_source_files_properties(${level_sources} PROPERTIES
                              COMPILE_OPTIONS "${AC4K_CPU_FLAGS_${level}};${kernel_flags}")
  # Bit-equal to separate multiplications and additions: no FMA but where it is written.
  set_property(SOURCE ${src}/cpu/${level}/rope.cpp ${src}/cpu/${level}/gguf.cpp
               APPEND PROPERTY COMPILE_OPTIONS -ffp-contract=off -fno-math-errno)
  list(APPEND AC4K_SOURCES ${level_sources})
endforeach()

# What not every CPU of a level has; src/cpu/dispatch.cpp asks before it is used.
set_property(SOURCE ${src}/cpu/avx512/decode_vnni.cpp ${src}/cpu/avx512/q8_1_vnni.cpp APPEND
             PROPERTY COMPILE_OPTIONS -mavx512vnni)
set_property(SOURCE ${src}/cpu/avx512/decode_vbmi.cpp APPEND
             PROPERTY COMPILE_OPTIONS -mavx512vnni -mavx512vbmi)
set_property(SOURCE ${src}/cpu/avx512/panels_bf16.cpp ${src}/cpu/amx/panels.cpp APPEND
             PROPERTY COMPILE_OPTIONS -mavx512bf16)

# The commit stands in `ac4k info`; a tree without git (an sdist) has none.
set(AC4K_BUILD_GIT)
if(EXISTS ${PROJECT_SOURCE_DIR}/.git)
  execute_process(COMMAND git -C ${PROJECT_SOURCE_DIR} rev-parse --short=12 HEAD
                  OUTPUT_VARIABLE AC4K_BUILD_GIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
                  RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    set(AC4K_BUILD_GIT)
  endif()
  # Of the commit that is built, not of the one that was configured.
  execute_process(COMMAND git -C ${PROJECT_SOURCE_DIR} rev-parse --git-path logs/HEAD
                  OUTPUT_VARIABLE moves OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  get_filename_component(moves "${moves}" ABSOLUTE BASE_DIR ${PROJECT_SOURCE_DIR})
  if(EXISTS ${moves} AND NOT IS_DIRECTORY ${moves})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${moves})
  endif()
endif()
configure_file(cmake/build_config.hpp.in ${PROJECT_BINARY_DIR}/generated/core/build_config.hpp @ONLY)

find_package(OpenMP REQUIRED COMPONENTS CXX)

# What every C++ target of ours is compiled with.
add_library(ac4k_options INTERFACE)
target_compile_options(ac4k_options INTERFACE -Wall -Wextra $<$<BOOL:${AC4K_WERROR}>:-Werror>)
if(AC4K_SANITIZE)
  # Unoptimized but for the kernels below, line tables only: a third of the time to compile.
  target_compile_options(ac4k_options INTERFACE -O0 -g1 -fno-omit-frame-pointer
                         -fsanitize=address,undefined -fno-sanitize-recover=all)
  target_link_options(ac4k_options INTERFACE -fsanitize=address,undefined)
endif()

add_library(ac4k_objects OBJECT ${AC4K_SOURCES})
target_compile_definitions(ac4k_objects PRIVATE AC4K_BUILDING)
if(NOT "amx" IN_LIST AC4K_CPU_LEVELS)
  target_compile_definitions(ac4k_objects PUBLIC AC4K_CPU_GENERIC_ONLY)
endif()
target_include_directories(ac4k_objects PUBLIC ${PROJECT_SOURCE_DIR}/include ${src} ${src}/cuda
                           ${PROJECT_BINARY_DIR}/generated)
target_link_libraries(ac4k_objects PUBLIC ac4k_options OpenMP::OpenMP_CXX ${CMAKE_DL_LIBS})

add_library(ac4k SHARED)
target_include_directories(ac4k PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                           $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(ac4k PRIVATE ac4k_objects)
# Never unloaded: what threads and handles keep lives as long as the process.
target_link_options(ac4k PRIVATE $<$<NOT:$<BOOL:${AC4K_SANITIZE}>>:-Wl,--no-undefined>
                    -Wl,-z,nodelete
                    -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/exports.map)
set_target_properties(ac4k PROPERTIES LINKER_LANGUAGE CXX
                      LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/exports.map
                      LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
