# Install rules. Component `python` is the compiled part of the package ac4k/ (the wheel), component
# `dev` a C++ tree. In both, libac4k.so finds its kernels in ac4k/ beside itself:
#   ac4k/_C.abi3.so  ac4k/_torch.abi3.so  ac4k/lib/libac4k.so  ac4k/lib/ac4k/{cubin,src}
#   lib/libac4k.so   lib/ac4k/{cubin,src}  include/ac4k  lib/cmake/ac4k  lib/pkgconfig/ac4k.pc
include(CMakePackageConfigHelpers)

function(ac4k_install_data component destination)
  install(FILES ${AC4K_CUBINS} DESTINATION ${destination}/cubin COMPONENT ${component})
  # Device sources, for compiling at first use.
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/src/cuda/ DESTINATION ${destination}/src
          COMPONENT ${component}
          FILES_MATCHING PATTERN "*.cu" PATTERN "*.cuh" PATTERN "*.h" PATTERN "*.hpp"
          PATTERN driver EXCLUDE)
endfunction()

if(AC4K_PYTHON)
  get_property(modules GLOBAL PROPERTY AC4K_PYTHON_MODULES)
  if(modules)
    install(TARGETS ${modules} LIBRARY DESTINATION ac4k COMPONENT python)
  endif()
  install(TARGETS ac4k LIBRARY DESTINATION ac4k/lib COMPONENT python)
  ac4k_install_data(python ac4k/lib/ac4k)
endif()

install(TARGETS ac4k EXPORT ac4k_targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
ac4k_install_data(dev ${CMAKE_INSTALL_LIBDIR}/ac4k)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ac4k DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        COMPONENT dev)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ac4k)
install(EXPORT ac4k_targets NAMESPACE ac4k:: FILE ac4kTargets.cmake DESTINATION ${package_dir}
        COMPONENT dev)
file(WRITE ${PROJECT_BINARY_DIR}/ac4kConfig.cmake
     "include(\${CMAKE_CURRENT_LIST_DIR}/ac4kTargets.cmake)\n")
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ac4kConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ac4kConfig.cmake ${PROJECT_BINARY_DIR}/ac4kConfigVersion.cmake
        DESTINATION ${package_dir} COMPONENT dev)

configure_file(cmake/ac4k.pc.in ${PROJECT_BINARY_DIR}/ac4k.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/ac4k.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
        COMPONENT dev)
