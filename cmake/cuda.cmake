# Finds the parts of the GPU code (CUDA toolkit, cuDNN, NCCL), sets WEFT_CUDA, and sets the code's compiler flags. Where
# only their headers are found, WEFT_CUDA_HEADERS is set to their folders: enough for tests on emulated GPUs.
include(CheckLanguage)

set(WEFT_CUDA FALSE)
set(WEFT_CUDA_HEADERS "")

# The folders of Python's wheels, which hold headers and libraries.
file(GLOB weft_wheels /usr/lib/python3*/dist-packages/nvidia/* /usr/local/lib/python3*/dist-packages/nvidia/*)

# Sets WEFT_CUDA_HEADERS, or tells in weft_cuda_missing which header isn't found.
macro(weft_find_cuda_headers)
  set(weft_cuda_hints ${CUDAToolkit_ROOT} ${CUDNN_ROOT} ${NCCL_ROOT} /usr/local/cuda /opt/cuda ${weft_wheels})
  foreach(header cuda_runtime.h crt/host_config.h cuda_bf16.h nv/target cublasLt.h cudnn.h nccl.h nvtx3/nvToolsExt.h)
    string(MAKE_C_IDENTIFIER "WEFT_HEADER_${header}" folder)
    find_path(${folder} ${header} HINTS ${weft_cuda_hints} PATH_SUFFIXES include include/cccl)
    mark_as_advanced(${folder})
    if(NOT ${folder})
      string(APPEND weft_cuda_missing "; for emulated GPUs the header ${header} wasn't found")
      set(WEFT_CUDA_HEADERS "")
      break()
    endif()
    list(APPEND WEFT_CUDA_HEADERS ${${folder}})
  endforeach()
  list(REMOVE_DUPLICATES WEFT_CUDA_HEADERS)
endmacro()

if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  set(weft_cuda_missing "builds with Clang have only the CPU code")
elseif(WEFT_SANITIZE)
  set(weft_cuda_missing "builds with sanitizers have no code for GPUs")
  if(GPU STREQUAL "TOOLKIT")
    weft_find_cuda_headers()
  endif()
elseif(GPU STREQUAL "OFF")
  set(weft_cuda_missing "GPU=OFF")
elseif(GPU STREQUAL "AUTO" AND NOT EXISTS /dev/nvidiactl AND NOT EXISTS /dev/dxg)  # the driver's devices on Linux and in WSL
  set(weft_cuda_missing "this machine has no NVIDIA GPU (-DGPU=ON builds the CUDA code all the same)")
else()
  # Usual places of toolkits that aren't on the PATH.
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    find_program(WEFT_NVCC nvcc HINTS ${CUDAToolkit_ROOT}/bin /usr/local/cuda/bin /opt/cuda/bin)
    if(WEFT_NVCC)
      set(CMAKE_CUDA_COMPILER ${WEFT_NVCC})
    endif()
  endif()
  set(CMAKE_CUDA_ARCHITECTURES ${WEFT_CUDA_ARCHITECTURES})
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    # The toolkit's folder, the system's, and folders of Python wheels.
    set(weft_cuda_hints ${CUDAToolkit_LIBRARY_ROOT} ${CUDAToolkit_TARGET_DIR} ${CUDNN_ROOT} ${NCCL_ROOT} /usr/local/cuda
                        ${weft_wheels})
    find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${weft_cuda_hints} PATH_SUFFIXES include)
    find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${weft_cuda_hints} PATH_SUFFIXES lib lib64)
    find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${weft_cuda_hints} PATH_SUFFIXES include)
    find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${weft_cuda_hints} PATH_SUFFIXES lib lib64)
    foreach(part CUDNN NCCL)
      if(NOT ${part}_INCLUDE_DIR OR NOT ${part}_LIBRARY)
        string(APPEND weft_cuda_missing "${part} wasn't found (set ${part}_ROOT to its folder); ")
      endif()
    endforeach()
    if(NOT weft_cuda_missing)
      set(WEFT_CUDA TRUE)
    endif()
  else()
    set(weft_cuda_missing "no CUDA compiler was found (set CUDACXX to nvcc's path)")
  endif()
  if(NOT WEFT_CUDA AND GPU STREQUAL "TOOLKIT")
    weft_find_cuda_headers()
  endif()
endif()
if(WEFT_CUDA)
  message(STATUS "GPU: CUDA ${CUDAToolkit_VERSION} for ${WEFT_CUDA_ARCHITECTURES}, cuDNN ${CUDNN_LIBRARY}, NCCL ${NCCL_LIBRARY}")
elseif(GPU STREQUAL "ON")
  message(FATAL_ERROR "GPU=ON: ${weft_cuda_missing}")
elseif(WEFT_CUDA_HEADERS)
  message(STATUS "GPU: emulated in tests alone, with the headers in ${WEFT_CUDA_HEADERS}: ${weft_cuda_missing}")
else()
  message(STATUS "GPU: not built: ${weft_cuda_missing}")
endif()

# Adds the CUDA code to the libraries of kernels and executors.
function(weft_add_cuda)
  file(GLOB_RECURSE kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/cuda/*.cu ${CMAKE_SOURCE_DIR}/kernels/cuda/*.cpp)
  file(GLOB execute CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/runtime/execute/cuda/*.cpp)
  add_library(weft_cuda INTERFACE)
  target_include_directories(weft_cuda SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS} ${CUDNN_INCLUDE_DIR} ${NCCL_INCLUDE_DIR})
  target_link_libraries(weft_cuda INTERFACE CUDA::cudart_static ${CUDNN_LIBRARY} ${NCCL_LIBRARY})
  # Programs that call none of these libraries load none. cuBLASLt, whose loading takes 0.1 s, is loaded at its first
  # call: from the folder where it was found here if the loader doesn't find it.
  target_link_options(weft_cuda INTERFACE LINKER:--as-needed)
  get_filename_component(cublas_lt_folder ${CUDA_cublasLt_LIBRARY} DIRECTORY)
  set_source_files_properties(${CMAKE_SOURCE_DIR}/kernels/cuda/gemm/cublas_lt_functions.cpp PROPERTIES
                              COMPILE_DEFINITIONS "WEFT_CUBLASLT_FOLDER=\"${cublas_lt_folder}\"")
  target_sources(weft_kernels PRIVATE ${kernels})
  # Its helpers have the names of those for CPUs, in cpu_kernels.cpp.
  set_source_files_properties(${CMAKE_SOURCE_DIR}/runtime/execute/cuda/cuda_tasks.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  get_target_property(execute_sources weft_execute SOURCES)
  list(REMOVE_ITEM execute_sources ${CMAKE_SOURCE_DIR}/runtime/execute/device/no_cuda.cpp)
  set_property(TARGET weft_execute PROPERTY SOURCES ${execute_sources} ${execute})
  target_link_libraries(weft_kernels PUBLIC $<BUILD_INTERFACE:weft_cuda>
    $<INSTALL_INTERFACE:$<LINK_ONLY:CUDA::cudart_static>> $<INSTALL_INTERFACE:${CUDNN_LIBRARY}> $<INSTALL_INTERFACE:${NCCL_LIBRARY}>)
  target_link_options(weft_kernels INTERFACE $<INSTALL_INTERFACE:LINKER:--as-needed>)
  # CMake 3.25 has no flag for C++20 in CUDA code, the standard that it takes over from C++. It silently drops a
  # standard that isn't required, so the flag is given here.
  set_property(TARGET weft_kernels PROPERTY CUDA_STANDARD_REQUIRED OFF)
  # Register spills are warnings, and with WEFT_WERROR errors like all warnings.
  target_compile_options(weft_kernels PRIVATE
    "$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;--expt-relaxed-constexpr;-Xcompiler=-Wall,-Wextra;-Xptxas=-warn-spills,-warn-lmem-usage>")
  if(WEFT_WERROR)
    target_compile_options(weft_kernels PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>")
  endif()
endfunction()

# The host's part of the CUDA code for programs with emulated GPUs, where the libraries above have none of it: device
# and transport as the objects weft_cuda_execute, the functions that start kernels in weft_cuda_kernels. A function that
# the emulator defines isn't taken from weft_cuda_kernels.
function(weft_add_cuda_host)
  add_library(weft_cuda INTERFACE)
  target_include_directories(weft_cuda SYSTEM INTERFACE ${WEFT_CUDA_HEADERS})
  file(GLOB_RECURSE kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/cuda/*.cpp)
  add_library(weft_cuda_kernels STATIC ${kernels})
  set_source_files_properties(${CMAKE_SOURCE_DIR}/kernels/cuda/gemm/cublas_lt_functions.cpp PROPERTIES
                              COMPILE_DEFINITIONS "WEFT_CUBLASLT_FOLDER=\"\"")
  target_link_libraries(weft_cuda_kernels PUBLIC weft_kernels weft_cuda)
  file(GLOB execute CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/runtime/execute/cuda/*.cpp)
  add_library(weft_cuda_execute OBJECT ${execute})
  target_link_libraries(weft_cuda_execute PUBLIC weft_execute weft_cuda_kernels)
  set_target_properties(weft_cuda_kernels weft_cuda_execute PROPERTIES UNITY_BUILD OFF)
  # The objects define the functions of this file, so it must be an object by itself: the linker then leaves it out.
  set_source_files_properties(${CMAKE_SOURCE_DIR}/runtime/execute/device/no_cuda.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
