// cuBLASLt's functions, of a library that is loaded when the first is asked for: it takes a tenth of a second, which
// programs that multiply nothing on a GPU do without.
#pragma once

#include <cublasLt.h>

#include <span>
#include <string>

#include "base/shared_library.h"

namespace weft::cuda {

/// Those that Weft calls. Types are the header's, so that a call is checked as one of the function itself would be;
/// where the header has a wrapper, the function is the one that the wrapper calls.
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

/// Throws RuntimeFault naming the function that the library, which is open, doesn't have.
CublasLtFunctions find_cublas_lt_functions(const SharedLibrary& library);

/// The functions of the first of `places` that opens. Throws UserError saying where it was looked for, what the loader
/// said and how to fix it. The code stays: CUDA's libraries may be busy until the process ends.
CublasLtFunctions load_cublas_lt(std::span<const std::string> places);

/// The process' functions, loaded by the first call that succeeds: by the library's name, as the loader finds it
/// (LD_LIBRARY_PATH, the program's own search path, the system's folders), else from where it lay when Weft was built.
/// Any thread may call. Throws as load_cublas_lt() does.
const CublasLtFunctions& cublas_lt();

}  // namespace weft::cuda
