// The functions of cuBLASLt that Weft calls, for emulated GPUs: plain loops in fp32, with the epilogues and the rules
// in the library's documentation. A few "algorithms" split k differently, so that the bits show which one was chosen.
#include <cuda_bf16.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "kernels/cuda/gemm/cublas_lt_functions.h"
#include "tests/gpu/emulator/failures.h"
#include "tests/gpu/emulator/gpu.h"

struct cublasLtContext {};

namespace weft::emulator {
namespace {

struct Descriptor {
  std::int32_t trans_a = CUBLAS_OP_N, trans_b = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;  // read, or written by an epilogue with a bias's gradient
  std::int32_t bias_type = -1;
  void* second = nullptr;
  std::int64_t second_stride = 0;
  bool tf32 = false;
};
struct Layout {
  cudaDataType_t type;
  std::uint64_t rows, cols;
  std::int64_t stride;  // between columns
};
struct Preference {
  std::uint64_t workspace = 0;
  std::uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::uint32_t alignment[4] = {256, 256, 256, 256};
};

// The library's own structures are opaque; these use their memory.
template <class Mine, class Opaque>
Mine inside(const Opaque* opaque) {
  static_assert(sizeof(Mine) <= sizeof(Opaque));
  Mine mine;
  std::memcpy(static_cast<void*>(&mine), opaque, sizeof mine);
  return mine;
}
template <class Mine, class Opaque>
void write(Opaque* opaque, const Mine& mine) {
  static_assert(sizeof(Mine) <= sizeof(Opaque));
  std::memcpy(opaque, &mine, sizeof mine);
}

// The number of pieces of k, and the required alignment of addresses and strides.
struct Algorithm {
  std::uint64_t pieces;
  std::uint32_t alignment;
};
constexpr std::array<Algorithm, 4> kAlgorithms{{{1, 16}, {1, 2}, {2, 2}, {3, 2}}};
constexpr std::uint64_t kMark = 0x57656674;  // a value with which no other data begins
constexpr std::size_t kWorkspaceOfPieces = 1 << 20;

std::optional<Algorithm> algorithm_of(const cublasLtMatmulAlgo_t* algorithm) {
  if (algorithm->data[0] != kMark || algorithm->data[1] >= kAlgorithms.size()) return std::nullopt;
  return kAlgorithms[algorithm->data[1]];
}
std::size_t workspace_of(const Algorithm& algorithm) {
  return algorithm.pieces > 1 ? kWorkspaceOfPieces : 0;
}

bool has_gelu(std::uint32_t epilogue) {
  return epilogue == CUBLASLT_EPILOGUE_GELU_AUX || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}
bool has_gelu_gradient(std::uint32_t epilogue) {
  return epilogue == CUBLASLT_EPILOGUE_DGELU || epilogue == CUBLASLT_EPILOGUE_DGELU_BGRAD;
}
bool has_bias(std::uint32_t epilogue) {
  return epilogue == CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}
bool has_bias_gradient(std::uint32_t epilogue) {
  return epilogue == CUBLASLT_EPILOGUE_DGELU_BGRAD || epilogue == CUBLASLT_EPILOGUE_BGRADB;
}

cublasStatus_t check(const Descriptor& d, const Layout& a, const Layout& b, const Layout& c) {
  const auto known = [](cudaDataType_t type) { return type == CUDA_R_32F || type == CUDA_R_16BF; };
  if (!known(a.type) || a.type != b.type || !known(c.type) || (a.type == CUDA_R_32F && c.type != CUDA_R_32F)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  for (const Layout* layout : {&a, &b, &c}) {
    if (layout->stride < static_cast<std::int64_t>(layout->rows)) return CUBLAS_STATUS_INVALID_VALUE;
  }
  const auto rows = d.trans_a == CUBLAS_OP_T ? a.cols : a.rows, left = d.trans_a == CUBLAS_OP_T ? a.rows : a.cols;
  const auto right = d.trans_b == CUBLAS_OP_T ? b.cols : b.rows, cols = d.trans_b == CUBLAS_OP_T ? b.rows : b.cols;
  if (rows != c.rows || cols != c.cols || left != right) return CUBLAS_STATUS_INVALID_VALUE;
  if ((has_bias(d.epilogue) || has_bias_gradient(d.epilogue)) &&
      (d.bias == nullptr || d.bias_type != static_cast<std::int32_t>(c.type))) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (has_gelu(d.epilogue) || has_gelu_gradient(d.epilogue)) {
    if (d.second == nullptr || d.second_stride % 8 != 0 || d.second_stride < static_cast<std::int64_t>(c.rows) ||
        reinterpret_cast<std::uintptr_t>(d.second) % 16 != 0) {
      return CUBLAS_STATUS_INVALID_VALUE;
    }
  } else if (d.epilogue != CUBLASLT_EPILOGUE_DEFAULT && d.epilogue != CUBLASLT_EPILOGUE_BIAS &&
             d.epilogue != CUBLASLT_EPILOGUE_BGRADB) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return CUBLAS_STATUS_SUCCESS;
}

float element(const void* data, cudaDataType_t type, std::size_t at) {
  return type == CUDA_R_32F ? static_cast<const float*>(data)[at]
                            : __bfloat162float(static_cast<const __nv_bfloat16*>(data)[at]);
}
void set_element(void* data, cudaDataType_t type, std::size_t at, float value) {
  if (type == CUDA_R_32F) {
    static_cast<float*>(data)[at] = value;
  } else {
    static_cast<__nv_bfloat16*>(data)[at] = __float2bfloat16_rn(value);
  }
}

// GELU in its tanh form, and its derivative.
constexpr double kRootTwoOverPi = 0.7978845608028654, kCubic = 0.044715;
double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(kRootTwoOverPi * (x + kCubic * x * x * x)));
}
double gelu_slope(double x) {
  const double t = std::tanh(kRootTwoOverPi * (x + kCubic * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * kRootTwoOverPi * (1 + 3 * kCubic * x * x);
}

// To 10 bits after the point, ties to even.
float rounded_to_tf32(float value) {
  auto bits = std::bit_cast<std::uint32_t>(value);
  bits += 0xfffU + (bits >> 13 & 1U);
  return std::bit_cast<float>(bits & ~0x1fffU);
}

// op(matrix) as rows of a contiguous array, element [row, col] at row·cols + col.
std::vector<float> rows_of(const void* data, const Layout& layout, bool transposed, bool tf32) {
  const std::size_t rows = transposed ? layout.cols : layout.rows, cols = transposed ? layout.rows : layout.cols;
  std::vector<float> all(rows * cols);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < cols; ++c) {
      const std::size_t major = transposed ? r : c, minor = transposed ? c : r;
      all[r * cols + c] = element(data, layout.type, major * static_cast<std::size_t>(layout.stride) + minor);
    }
  }
  if (tf32) std::ranges::transform(all, all.begin(), rounded_to_tf32);
  return all;
}

constexpr std::size_t kBlock = 8;

void add_scaled(float* sum, const float* row, float factor, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) sum[i] += row[i] * factor;
}

struct Product {
  Descriptor d;
  Layout a_layout, b_layout, c_layout;
  const void *a, *b, *c;
  void* out;
  float alpha, beta;
  std::uint64_t pieces;

  void run() const {
    const std::size_t m = c_layout.rows, n = c_layout.cols;
    // The columns of the result are contiguous, and so are the rows of op(A)ᵀ.
    const std::vector<float> left = rows_of(a, a_layout, d.trans_a == CUBLAS_OP_T, d.tf32);
    const std::vector<float> right = rows_of(b, b_layout, d.trans_b == CUBLAS_OP_T, d.tf32);
    const std::size_t k = left.size() / m;
    std::vector<float> left_columns(left.size());
    for (std::size_t i = 0; i < m; ++i) {
      for (std::size_t p = 0; p < k; ++p) left_columns[p * m + i] = left[i * k + p];
    }
    // Columns in blocks, which read a row of op(A)ᵀ once. Each element is the same sum in the same order.
    std::vector<float> total(m * kBlock), piece(m * kBlock);
    for (std::size_t first = 0; first < n; first += kBlock) {
      const std::size_t columns = std::min(kBlock, n - first);
      std::ranges::fill(total, 0.0F);
      for (std::uint64_t s = 0; s < pieces; ++s) {
        std::ranges::fill(piece, 0.0F);
        for (std::size_t p = k * s / pieces; p < k * (s + 1) / pieces; ++p) {
          for (std::size_t j = 0; j < columns; ++j) {
            add_scaled(piece.data() + j * m, left_columns.data() + p * m, right[p * n + first + j], m);
          }
        }
        for (std::size_t i = 0; i < total.size(); ++i) total[i] += piece[i];
      }
      for (std::size_t j = 0; j < columns; ++j) {
        for (std::size_t i = 0; i < m; ++i) end(i, first + j, total[j * m + i]);
      }
    }
    if (d.epilogue == CUBLASLT_EPILOGUE_BGRADB) sum_of_b(right, k, n);
    if (d.epilogue == CUBLASLT_EPILOGUE_DGELU_BGRAD) sum_of_result(m, n);
  }

 private:
  // Of op(B)'s columns, over k.
  void sum_of_b(const std::vector<float>& right, std::size_t k, std::size_t n) const {
    for (std::size_t j = 0; j < n; ++j) {
      float sum = 0;
      for (std::size_t p = 0; p < k; ++p) sum += right[p * n + j];
      set_element(d.bias, c_layout.type, j, sum);
    }
  }
  // Of the result's rows.
  void sum_of_result(std::size_t m, std::size_t n) const {
    for (std::size_t i = 0; i < m; ++i) {
      float sum = 0;
      for (std::size_t j = 0; j < n; ++j) {
        sum += element(out, c_layout.type, j * static_cast<std::size_t>(c_layout.stride) + i);
      }
      set_element(d.bias, c_layout.type, i, sum);
    }
  }

  void end(std::size_t row, std::size_t col, float sum) const {
    const std::size_t at = col * static_cast<std::size_t>(c_layout.stride) + row;
    const std::size_t second_at = col * static_cast<std::size_t>(d.second_stride) + row;
    float value = alpha * sum;
    if (beta != 0) value += beta * element(c, c_layout.type, at);
    if (has_bias(d.epilogue)) value += element(d.bias, c_layout.type, row);
    if (has_gelu(d.epilogue)) {
      set_element(d.second, c_layout.type, second_at, value);
      value = static_cast<float>(gelu(static_cast<double>(value)));
    } else if (has_gelu_gradient(d.epilogue)) {
      const double x = static_cast<double>(element(d.second, c_layout.type, second_at));
      value = static_cast<float>(static_cast<double>(value) * gelu_slope(x));
    }
    set_element(out, c_layout.type, at, value);
  }
};

cublasStatus_t create(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t destroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
std::size_t version() {
  return CUBLAS_VERSION;
}
const char* status_name(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED ? "not supported by the emulated cuBLASLt" : "emulated cuBLASLt";
}

cublasStatus_t init_descriptor(cublasLtMatmulDesc_t descriptor, std::size_t /*size*/, cublasComputeType_t compute,
                               cudaDataType_t scale) {
  const bool tf32 = compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  if ((compute != CUBLAS_COMPUTE_32F && !tf32) || scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  write(descriptor, Descriptor{.tf32 = tf32});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t init_layout(cublasLtMatrixLayout_t layout, std::size_t /*size*/, cudaDataType type, std::uint64_t rows,
                           std::uint64_t cols, std::int64_t stride) {
  write(layout, Layout{type, rows, cols, stride});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t init_preference(cublasLtMatmulPreference_t preference, std::size_t /*size*/) {
  write(preference, Preference{});
  return CUBLAS_STATUS_SUCCESS;
}

// Writes the field of `opaque` that `field_of` names, by its address and size in the structure of type Mine.
template <class Mine, class Opaque, class FieldOf>
cublasStatus_t set(Opaque* opaque, const void* value, std::size_t size, const FieldOf& field_of) {
  auto mine = inside<Mine>(opaque);
  const std::span<std::byte> field = field_of(mine);
  if (field.empty()) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (size != field.size()) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(field.data(), value, size);
  write(opaque, mine);
  return CUBLAS_STATUS_SUCCESS;
}
template <class Field>
std::span<std::byte> bytes_of(Field& field) {
  return std::as_writable_bytes(std::span(&field, 1));
}

cublasStatus_t set_descriptor(cublasLtMatmulDesc_t descriptor, cublasLtMatmulDescAttributes_t attribute,
                              const void* value, std::size_t size) {
  return set<Descriptor>(descriptor, value, size, [&](Descriptor& mine) {
    switch (attribute) {
      case CUBLASLT_MATMUL_DESC_TRANSA:
        return bytes_of(mine.trans_a);
      case CUBLASLT_MATMUL_DESC_TRANSB:
        return bytes_of(mine.trans_b);
      case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return bytes_of(mine.epilogue);
      case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return bytes_of(mine.bias);
      case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
        return bytes_of(mine.bias_type);
      case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
        return bytes_of(mine.second);
      case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
        return bytes_of(mine.second_stride);
      default:
        return std::span<std::byte>();
    }
  });
}

cublasStatus_t set_preference(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
                              const void* value, std::size_t size) {
  return set<Preference>(preference, value, size, [&](Preference& mine) {
    const int matrix = attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;  // of A, B, C and D in this order
    if (matrix >= 0 && matrix < 4) return bytes_of(mine.alignment[matrix]);
    if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) return bytes_of(mine.workspace);
    if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) return bytes_of(mine.schemes);
    return std::span<std::byte>();
  });
}

cublasStatus_t heuristic(cublasLtHandle_t /*handle*/, cublasLtMatmulDesc_t descriptor, cublasLtMatrixLayout_t a,
                         cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t /*d*/,
                         cublasLtMatmulPreference_t preference, int most, cublasLtMatmulHeuristicResult_t* results,
                         int* count) {
  *count = 0;
  const cublasStatus_t status =
      check(inside<Descriptor>(descriptor), inside<Layout>(a), inside<Layout>(b), inside<Layout>(c));
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  const auto wishes = inside<Preference>(preference);
  const std::uint32_t alignment = *std::ranges::min_element(wishes.alignment);
  for (std::size_t id = 0; id < kAlgorithms.size() && *count < most; ++id) {
    const Algorithm& algorithm = kAlgorithms[id];
    const bool may_split = (wishes.schemes & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) != 0;
    if (algorithm.alignment > alignment || (algorithm.pieces > 1 && !may_split)) continue;
    if (workspace_of(algorithm) > wishes.workspace) continue;
    cublasLtMatmulHeuristicResult_t& result = results[(*count)++];
    result = {};
    result.algo.data[0] = kMark;
    result.algo.data[1] = id;
    result.workspaceSize = workspace_of(algorithm);
    result.state = CUBLAS_STATUS_SUCCESS;
  }
  return *count > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t check_algorithm(cublasLtHandle_t /*handle*/, cublasLtMatmulDesc_t descriptor, cublasLtMatrixLayout_t a,
                               cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t /*d*/,
                               const cublasLtMatmulAlgo_t* algorithm, cublasLtMatmulHeuristicResult_t* result) {
  const auto known = algorithm_of(algorithm);
  if (!known) return CUBLAS_STATUS_INVALID_VALUE;
  result->workspaceSize = workspace_of(*known);
  return check(inside<Descriptor>(descriptor), inside<Layout>(a), inside<Layout>(b), inside<Layout>(c));
}

cublasStatus_t capability(const cublasLtMatmulAlgo_t* algorithm, cublasLtMatmulAlgoCapAttributes_t attribute,
                          void* value, std::size_t size, std::size_t* written) {
  const auto known = algorithm_of(algorithm);
  const bool of_alignment =
      attribute >= CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_A_BYTES && attribute <= CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_D_BYTES;
  if (!known || !of_alignment || size != sizeof known->alignment) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(value, &known->alignment, size);
  *written = size;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t matmul(cublasLtHandle_t /*handle*/, cublasLtMatmulDesc_t descriptor, const void* alpha, const void* a,
                      cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                      const void* c, cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t /*d_layout*/,
                      const cublasLtMatmulAlgo_t* algorithm, void* workspace, std::size_t workspace_bytes,
                      cudaStream_t stream) {
  const auto known = algorithm_of(algorithm);
  if (!known || workspace_bytes < workspace_of(*known)) return CUBLAS_STATUS_INVALID_VALUE;
  const Product product{inside<Descriptor>(descriptor),
                        inside<Layout>(a_layout),
                        inside<Layout>(b_layout),
                        inside<Layout>(c_layout),
                        a,
                        b,
                        c,
                        d,
                        *static_cast<const float*>(alpha),
                        *static_cast<const float*>(beta),
                        known->pieces};
  const cublasStatus_t status = check(product.d, product.a_layout, product.b_layout, product.c_layout);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  std::uintptr_t addresses = 0;
  for (const void* const matrix : {a, b, c, static_cast<const void*>(d)}) {
    addresses |= reinterpret_cast<std::uintptr_t>(matrix);
  }
  if (addresses % known->alignment != 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto run = [=, bytes = workspace_of(*known)] {
    // The contents of the workspace afterwards are undefined.
    if (bytes > 0) std::memset(workspace, 0xff, bytes);
    product.run();
  };
  const cudaError_t error =
      enqueue_fallible("cublasLtMatmul", stream, {.name = "a product", .work = run, .kernel = true});
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // namespace
}  // namespace weft::emulator

namespace weft::cuda {

const CublasLtFunctions& cublas_lt() {
  static const CublasLtFunctions functions = [] {
    namespace e = weft::emulator;
    return CublasLtFunctions{e::create,          e::destroy,        e::version,         e::status_name,
                             e::init_descriptor, e::set_descriptor, e::init_layout,     e::init_preference,
                             e::set_preference,  e::heuristic,      e::check_algorithm, e::capability,
                             e::matmul};
  }();
  return functions;
}

}  // namespace weft::cuda
