#include "kernels/cuda/gemm/cublas_lt_functions.h"

#include <fmt/format.h>

#include <array>

#include "base/error.h"

namespace weft::cuda {
namespace {

// The library's name, as programs linked with the header's version would load it.
std::string library_name() {
  return fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR);
}

template <class Function>
void find(const SharedLibrary& library, const char* name, Function*& function) {
  function = library.find<Function>(name);
  if (function == nullptr) throw RuntimeFault(fmt::format("{} has no function {}", library.place(), name));
}

}  // namespace

CublasLtFunctions find_cublas_lt_functions(const SharedLibrary& library) {
  CublasLtFunctions functions;
  find(library, "cublasLtCreate", functions.create);
  find(library, "cublasLtDestroy", functions.destroy);
  find(library, "cublasLtGetVersion", functions.version);
  find(library, "cublasLtGetStatusName", functions.status_name);
  find(library, "cublasLtMatmulDescInit_internal", functions.init_descriptor);
  find(library, "cublasLtMatmulDescSetAttribute", functions.set_descriptor);
  find(library, "cublasLtMatrixLayoutInit_internal", functions.init_layout);
  find(library, "cublasLtMatmulPreferenceInit_internal", functions.init_preference);
  find(library, "cublasLtMatmulPreferenceSetAttribute", functions.set_preference);
  find(library, "cublasLtMatmulAlgoGetHeuristic", functions.heuristic);
  find(library, "cublasLtMatmulAlgoCheck", functions.check_algorithm);
  find(library, "cublasLtMatmulAlgoCapGetAttribute", functions.capability);
  find(library, "cublasLtMatmul", functions.matmul);
  return functions;
}

CublasLtFunctions load_cublas_lt(std::span<const std::string> places) {
  const SharedLibrary library(places, SharedLibrary::Code::stays);
  if (!library) {
    throw UserError(
        fmt::format("device cuda: cuBLASLt doesn't load: {}", library.failure()),
        fmt::format("{} of the CUDA {} toolkit or of Python's wheel nvidia-cublas", library_name(), CUBLAS_VER_MAJOR),
        "LD_LIBRARY_PATH=<its folder>, or --device cpu; `weft doctor` tells what was found");
  }
  return find_cublas_lt_functions(library);
}

const CublasLtFunctions& cublas_lt() {
  static const CublasLtFunctions functions =
      load_cublas_lt(std::array{library_name(), std::string(WEFT_CUBLASLT_FOLDER "/") + library_name()});
  return functions;
}

}  // namespace weft::cuda
