# The two doors. Both are abi3 modules (file name *.abi3.so) and find libac4k.so in lib/ beside them.
function(ac4k_python_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES")
  add_library(${name} MODULE ${arg_SOURCES})
  target_compile_definitions(${name} PRIVATE Py_LIMITED_API=0x030b0000)
  target_include_directories(${name} SYSTEM PRIVATE ${Python_INCLUDE_DIRS})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE ac4k ac4k_options)
  set_target_properties(${name} PROPERTIES PREFIX "" SUFFIX ".abi3.so" INSTALL_RPATH "$ORIGIN/lib"
                        BUILD_WITH_INSTALL_RPATH ON
                        LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
  set_property(GLOBAL APPEND PROPERTY AC4K_PYTHON_MODULES ${name})
endfunction()

file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/python/*.cpp)
if(sources)
  ac4k_python_module(_C SOURCES ${sources})
endif()

# torch is looked up by its files, since importing it takes seconds. -I leaves pip's build isolation,
# so `pip install .` sees the torch of the environment it installs into; the binary does not depend
# on which one it is (stable ABI).
set(find_torch [[
import importlib.util, pathlib, re
spec = importlib.util.find_spec("torch")
if spec and spec.origin:
    root = pathlib.Path(spec.origin).parent
    text = (root / "version.py").read_text()
    version = re.search(r"__version__ = '(\d+)\.(\d+)", text)
    print(root, *version.groups(), sep=";")
]])
execute_process(COMMAND ${Python_EXECUTABLE} -I -c "${find_torch}" OUTPUT_VARIABLE torch
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT torch)
  execute_process(COMMAND ${Python_EXECUTABLE} -c "${find_torch}" OUTPUT_VARIABLE torch
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()

file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/torch/*.cpp)
if(NOT torch)
  message(STATUS "AC4K: no torch found: the compiled torch module is left out")
elseif(sources)
  list(GET torch 0 torch_root)
  list(GET torch 1 torch_major)
  list(GET torch 2 torch_minor)
  if("${torch_major}.${torch_minor}" VERSION_LESS 2.11)
    message(STATUS "AC4K: torch ${torch_major}.${torch_minor} is older than 2.11: the compiled torch module is left out")
  else()
    message(STATUS "AC4K: torch ${torch_major}.${torch_minor} in ${torch_root}")
    ac4k_python_module(_torch SOURCES ${sources})
    target_compile_definitions(_torch PRIVATE TORCH_TARGET_VERSION=0x020b000000000000)
    target_include_directories(_torch SYSTEM PRIVATE ${torch_root}/include
                               ${torch_root}/include/torch/csrc/api/include)
    # By name only, no rpath: by the time _torch is loaded, torch has loaded them.
    target_link_libraries(_torch PRIVATE ${torch_root}/lib/libtorch_cpu.so
                          ${torch_root}/lib/libc10.so)
  endif()
endif()
