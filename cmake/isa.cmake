# The instructions that code is compiled for. WEFT_ISA=native: everything for WEFT_ARCH. WEFT_ISA=all: kernels for each
# level of kernels/cpu/isa/level.h, in shared libraries of which the program loads one; all other code for any x86-64.
set(WEFT_ISA "native" CACHE STRING "native: all code for WEFT_ARCH; all: kernels for v3, v4 and v4-bf16, chosen when the program starts")
set_property(CACHE WEFT_ISA PROPERTY STRINGS native all)

set(weft_levels v3 v4 v4-bf16)
set(weft_flags_v3 -march=x86-64-v3)
set(weft_flags_v4 -march=x86-64-v4)
set(weft_flags_v4-bf16 -march=x86-64-v4 -mavx512bf16)

set(suffix "")  # of the level's name (kernels/cpu/isa/compiled_level.cpp)
if(WEFT_ISA STREQUAL "native")
  if(WEFT_ARCH AND NOT WEFT_ARCH MATCHES "^(x86-64-v[34]|x86-64-v4;-mavx512bf16)$")
    string(REGEX REPLACE "[^A-Za-z0-9.+]+" "-" suffix "-${WEFT_ARCH}")
  endif()
  if(WEFT_ARCH)
    weft_compile_options(-march=${WEFT_ARCH})
  endif()
elseif(WEFT_ISA STREQUAL "all")
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    message(FATAL_ERROR "WEFT_ISA=all: levels of x86-64 alone are known, and this is ${CMAKE_SYSTEM_PROCESSOR}")
  elseif(WEFT_SANITIZE)
    message(FATAL_ERROR "WEFT_ISA=all isn't built with sanitizers: use WEFT_ISA=native")
  elseif(GPU MATCHES "^(ON|TOOLKIT)$")
    message(FATAL_ERROR "WEFT_ISA=all has no CUDA code: use -DGPU=OFF, or WEFT_ISA=native with WEFT_ARCH for the machine")
  endif()
  if(WEFT_BENCH)
    message(FATAL_ERROR "WEFT_ISA=all has no benchmarks: they use vectors of one length; use WEFT_ISA=native")
  endif()
  set(GPU OFF)
  # A level's libraries have the property WEFT_LEVEL_FLAGS. Vector code outside of them doesn't compile (simd.h).
  set(in_level "$<BOOL:$<TARGET_PROPERTY:WEFT_LEVEL_FLAGS>>")
  weft_compile_options("$<IF:${in_level},$<TARGET_PROPERTY:WEFT_LEVEL_FLAGS>,-march=x86-64>")
  target_compile_definitions(weft_options INTERFACE "$<$<NOT:${in_level}>:WEFT_BASELINE>")
  # Checksums of files use one instruction that any CPU with a level has. No such code runs before the CPU is checked.
  set_source_files_properties(${CMAKE_SOURCE_DIR}/base/files/checksum.cpp PROPERTIES COMPILE_OPTIONS -msse4.2)
else()
  message(FATAL_ERROR "WEFT_ISA=${WEFT_ISA}: expected native or all")
endif()

set_source_files_properties(${CMAKE_SOURCE_DIR}/kernels/cpu/isa/compiled_level.cpp PROPERTIES
                            COMPILE_DEFINITIONS "WEFT_LEVEL_SUFFIX=\"${suffix}\"")

# Sorts the sources of weft_kernels: some are compiled once, the others for each level. Kernels know no other room but base/.
function(weft_kernel_levels)
  get_target_property(sources weft_kernels SOURCES)
  set(isa ${CMAKE_SOURCE_DIR}/kernels/cpu/isa)
  set(chosen ${isa}/level_kernels.cpp ${isa}/forwarded.cpp)
  list(REMOVE_ITEM sources ${chosen} ${isa}/level_library.cpp)
  if(WEFT_ISA STREQUAL "native")
    set_property(TARGET weft_kernels PROPERTY SOURCES ${sources})
    return()
  endif()
  set(cpu ${CMAKE_SOURCE_DIR}/kernels/cpu)
  set(once ${isa}/level.cpp ${cpu}/non_finite.cpp)
  set(both ${cpu}/parallel.cpp ${cpu}/gemm/gemm_layout.cpp)
  list(REMOVE_ITEM sources ${once} ${isa}/native_kernels.cpp)
  set_property(TARGET weft_kernels PROPERTY SOURCES ${once} ${both} ${chosen})
  set_property(TARGET weft_kernels PROPERTY WEFT_LEVEL_SOURCES ${sources})
endfunction()

# The libraries of the levels, and the program where it finds them: bin/ and lib/weft/, in the build folder as after
# installing. `build` names this build, so that a program refuses a library of another.
function(weft_add_levels build)
  if(WEFT_ISA STREQUAL "native")
    return()
  endif()
  set(isa ${CMAKE_SOURCE_DIR}/kernels/cpu/isa)
  set_source_files_properties(${isa}/level_kernels.cpp ${isa}/level_library.cpp PROPERTIES
                              COMPILE_DEFINITIONS "WEFT_KERNEL_BUILD=\"${build}\"")
  get_target_property(sources weft_kernels WEFT_LEVEL_SOURCES)
  get_target_property(options weft_kernels COMPILE_OPTIONS)
  foreach(level IN LISTS weft_levels)
    set(name weft_kernels_${level})
    add_library(${name} MODULE ${sources} ${isa}/level_library.cpp)
    set_target_properties(${name} PROPERTIES
      WEFT_LEVEL_FLAGS "${weft_flags_${level}}" UNITY_BUILD OFF PREFIX lib CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/weft LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/level.map)
    target_compile_options(${name} PRIVATE ${options})
    target_compile_features(${name} PRIVATE cxx_std_20)
    target_link_libraries(${name} PRIVATE weft_options fmt::fmt TBB::tbb DNNL::dnnl OpenMP::OpenMP_CXX)
    # One symbol is exported. Inline functions and templates, also the standard library's, stay the level's own.
    target_link_options(${name} PRIVATE LINKER:--version-script=${CMAKE_SOURCE_DIR}/cmake/level.map LINKER:--no-undefined
                                        LINKER:--exclude-libs,ALL)
    add_dependencies(weft ${name})
    install(TARGETS ${name} LIBRARY DESTINATION lib/weft)
  endforeach()
  set_target_properties(weft PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin INSTALL_RPATH "$ORIGIN/../lib/weft")
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/share/weft)
  file(CREATE_LINK ${CMAKE_SOURCE_DIR}/machines ${CMAKE_BINARY_DIR}/share/weft/machines SYMBOLIC)
endfunction()
