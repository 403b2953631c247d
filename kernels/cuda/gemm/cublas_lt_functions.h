// cuBLASLt's functions, from a library that is loaded at their first use. Loading takes 0.1 s, which programs without
// GPU products avoid.
#pragma once

#include <cublasLt.h>

#include <span>
#include <string>

#include "base/shared_library.h"

namespace weft::cuda {

/// The functions that Weft calls. Their types are those of the header, so calls are checked like direct calls. If the
/// header has a wrapper, the function is the one that the wrapper calls.
struct CublasLtFunctions {
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtGetVersion) version = nullptr;
  decltype(&cublasLtGetStatusName) status_name = nullptr;
  decltype(&cublasLtMatmulDescInit_internal) init_descriptor = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) set_descriptor = nullptr;
  decltype(&cublasLtMatrixLayoutInit_internal) init_layout = nullptr;
  decltype(&cublasLtMatmulPreferenceInit_internal) init_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  decltype(&cublasLtMatmulAlgoCheck) check_algorithm = nullptr;
  decltype(&cublasLtMatmulAlgoCapGetAttribute) capability = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
};

/// Throws RuntimeFault that names the function missing from the library, which is open.
CublasLtFunctions find_cublas_lt_functions(const SharedLibrary& library);

/// The functions of the first of `places` that opens. Throws UserError with the places tried, the loader's messages and
/// the fix. The code stays loaded: CUDA's libraries may be busy until the process ends.
CublasLtFunctions load_cublas_lt(std::span<const std::string> places);

/// The process's functions, loaded by the first call that succeeds: by the library's name, as the loader finds it
/// (LD_LIBRARY_PATH, the program's own search path, the system's folders), else from its folder when Weft was built.
/// Thread-safe. Throws like load_cublas_lt().
const CublasLtFunctions& cublas_lt();

}  // namespace weft::cuda
