# Device code: src/cuda/common/*.cu for every chosen architecture, src/cuda/<arch>/*.cu for its own.
# src/cuda/common/stream.cu for sm90a becomes cubin/common.stream.sm90a.cubin, with what ptxas said
# about registers and spills in common.stream.sm90a.txt beside it.
set(AC4K_CUBIN_DIR ${PROJECT_BINARY_DIR}/lib/ac4k/cubin)
set(AC4K_CUBINS)
foreach(arch IN LISTS AC4K_BUILD_CUDA_ARCHS)
  string(REPLACE "sm" "" number ${arch})
  file(GLOB device_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cuda/common/*.cu
       ${PROJECT_SOURCE_DIR}/src/cuda/${arch}/*.cu)
  foreach(source IN LISTS device_sources)
    file(RELATIVE_PATH module ${PROJECT_SOURCE_DIR}/src/cuda ${source})
    string(REGEX REPLACE "\\.cu$" "" module ${module})
    string(REPLACE "/" "." name ${module})
    set(base ${AC4K_CUBIN_DIR}/${name}.${arch})
    add_custom_command(
      OUTPUT ${base}.cubin
      BYPRODUCTS ${base}.txt
      COMMAND ${CMAKE_COMMAND} -DREPORT=${base}.txt -P ${PROJECT_SOURCE_DIR}/cmake/RunNvcc.cmake --
              ${AC4K_NVCC} -ccbin ${CMAKE_CXX_COMPILER} -std=c++20 -cubin
              -gencode=arch=compute_${number},code=sm_${number} -Xptxas -v,-warn-spills
              -I ${PROJECT_SOURCE_DIR}/src/cuda -MD -MF ${base}.d -MT ${base}.cubin
              -o ${base}.cubin ${source}
      DEPENDS ${source}
      DEPFILE ${base}.d
      COMMENT "nvcc ${module} for ${arch}"
      VERBATIM)
    list(APPEND AC4K_CUBINS ${base}.cubin)
  endforeach()
endforeach()
file(MAKE_DIRECTORY ${AC4K_CUBIN_DIR})
add_custom_target(ac4k_cubins ALL DEPENDS ${AC4K_CUBINS})
