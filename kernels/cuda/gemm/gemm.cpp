// Matrix products by cuBLASLt; see gemm.h.
// cuBLASLt's matrices are column-major, so to cuBLASLt our matrices in place are the transposed ones. It is told to
// compute Cᵀ = op(B)ᵀ·op(A)ᵀ, with n rows and m columns, and its "A" is our B.
#include "kernels/cuda/gemm/gemm.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstdint>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "kernels/cuda/elementwise/elementwise.h"
#include "kernels/cuda/gemm/cublas_lt_functions.h"

namespace weft::cuda {

namespace {

void check_cublas(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw RuntimeFault(fmt::format("cuBLASLt: {}: {}", what, cublas_lt().status_name(status)));
}

cudaDataType_t library_type(DType dtype) {
  return dtype == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F;
}

std::uint32_t library_epilogue(const GemmKey& key, bool bias_gradient) {
  switch (key.epilogue) {
    case Epilogue::none:
      break;
    case Epilogue::gelu:
      return key.has_bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    case Epilogue::gelu_gradient:
      return bias_gradient ? CUBLASLT_EPILOGUE_DGELU_BGRAD : CUBLASLT_EPILOGUE_DGELU;
    case Epilogue::add:
    case Epilogue::bias_gradient:
      throw std::logic_error("cuda::PreparedGemm: an addend and a bias's gradient are side matrices alone");
  }
  if (bias_gradient) return CUBLASLT_EPILOGUE_BGRADB;  // the library's B is our A
  return key.has_bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

bool is_float(DType dtype) {
  return dtype == DType::f32 || dtype == DType::bf16;
}

void require(bool condition, const char* what) {
  if (!condition) throw std::logic_error(fmt::format("cuda::PreparedGemm: {}", what));
}

// The largest power of two up to 256, cuBLASLt's default, that divides the address and the row stride in bytes.
std::uint32_t alignment_of(const Matrix& matrix) {
  const auto row_bytes = static_cast<std::uintptr_t>(matrix.row_stride) * size_of(matrix.dtype);
  const auto bits = reinterpret_cast<std::uintptr_t>(matrix.data) | (matrix.rows > 1 ? row_bytes : 0) | 256U;
  return static_cast<std::uint32_t>(bits & (~bits + 1));
}

cublasLtMatrixLayoutOpaque_t layout_of(const Matrix& matrix) {
  // A single row may have any stride; cuBLASLt requires at least the row's length.
  const std::int64_t stride = std::max(matrix.row_stride, matrix.cols);
  cublasLtMatrixLayoutOpaque_t layout{};
  check_cublas(
      cublas_lt().init_layout(&layout, sizeof(layout), library_type(matrix.dtype),
                              static_cast<std::uint64_t>(matrix.cols), static_cast<std::uint64_t>(matrix.rows), stride),
      "cublasLtMatrixLayoutInit");
  return layout;
}

template <class Value>
void set(cublasLtMatmulDescOpaque_t& descriptor, cublasLtMatmulDescAttributes_t attribute, const Value& value) {
  check_cublas(cublas_lt().set_descriptor(&descriptor, attribute, &value, sizeof(value)),
               "cublasLtMatmulDescSetAttribute");
}

template <class Value>
void set(cublasLtMatmulPreferenceOpaque_t& preference, cublasLtMatmulPreferenceAttributes_t attribute,
         const Value& value) {
  check_cublas(cublas_lt().set_preference(&preference, attribute, &value, sizeof(value)),
               "cublasLtMatmulPreferenceSetAttribute");
}

// The matrix in the key's shape, rows × cols, whatever shape the caller gave the same memory.
Matrix shaped(const Matrix& matrix, bool transposed, std::int64_t rows, std::int64_t cols) {
  Matrix as = matrix;
  as.rows = transposed ? cols : rows;
  as.cols = transposed ? rows : cols;
  require(as.rows <= 1 || as.row_stride >= as.cols, "rows that overlap");
  return as;
}

void check_arguments(const GemmKey& key, const Matrix& a, const Matrix& b, const Matrix& c, const Matrix* bias) {
  require(key.m >= 0 && key.n >= 0 && key.k >= 0, "a negative size");
  require(is_float(key.inputs) && is_float(key.output), "not a float dtype");
  require(key.inputs == DType::bf16 || key.output == DType::f32, "f32 inputs with a bf16 output");
  require(!key.tf32 || key.inputs == DType::f32, "bf16 inputs rounded to TF32");
  require(a.dtype == key.inputs && b.dtype == key.inputs && c.dtype == key.output, "other dtypes than the key's");
  require(key.strides == std::array{a.row_stride, b.row_stride, c.row_stride}, "other strides than the key's");
  require(key.has_bias == (bias != nullptr), "has_bias isn't the key's");
  if (bias == nullptr) return;
  require(bias->rows * bias->cols == key.n, "the bias isn't of n elements");
  require(bias->rows == 1 || (bias->cols == 1 && bias->row_stride == 1), "the bias isn't contiguous");
  require(bias->dtype == key.output, "cuBLASLt adds a bias of C's dtype only");
  require(key.k > 0, "cuBLASLt adds no bias to an empty sum");
}

void check_side(const GemmKey& key, const Matrix& c, const GemmSideMatrices& side) {
  const auto like_c = [&](const Matrix& matrix) {
    return matrix.dtype == c.dtype && matrix.rows == key.m && matrix.cols == key.n;
  };
  require(!side.into_scratch || side.bias_gradient != nullptr, "no bias's gradient for the scratch");
  require((side.second != nullptr) == (key.epilogue != Epilogue::none), "an epilogue without its matrix, or the other");
  require(side.second == nullptr || like_c(*side.second), "the second matrix differs from C");
  require((side.addend != nullptr) == key.accumulate, "the key accumulates, and no addend is given, or the other");
  require(side.addend == nullptr || (like_c(*side.addend) && side.addend->row_stride == c.row_stride),
          "the addend differs from C");
  require(side.bias == nullptr || key.epilogue != Epilogue::gelu_gradient, "GELU's gradient takes no bias");
  if (side.bias_gradient == nullptr) return;
  require(side.bias == nullptr && key.epilogue != Epilogue::gelu, "a bias and its gradient in one product");
  require(side.bias_gradient->dtype == c.dtype, "cuBLASLt writes a bias's gradient in C's dtype only");
  const std::int64_t length = key.epilogue == Epilogue::gelu_gradient ? key.n : key.m;
  require(side.bias_gradient->rows == 1 && side.bias_gradient->cols == length,
          "the bias's gradient has another length");
}

}  // namespace

std::string to_hex(const GemmAlgorithm& algorithm) {
  std::string text;
  for (const std::uint64_t word : algorithm.data) text += fmt::format("{:016x}", word);
  return text;
}

std::int64_t gemm_scratch_bytes(const GemmKey& key, GemmLayout layout) {
  const std::int64_t bytes = kGemmWorkspace + cpu::copies_for(layout, key.shape(), key.inputs).bytes;
  if (key.epilogue != Epilogue::bias_gradient) return bytes;
  const std::int64_t sums = key.accumulate ? key.m * static_cast<std::int64_t>(sizeof(float)) : 0;
  return std::max(bytes + sums, bias_gradient_scratch_bytes(key.k, key.m));
}

std::optional<GemmAlgorithm> parse_hex(std::string_view text) {
  constexpr std::size_t kDigits = 16;
  GemmAlgorithm algorithm;
  if (text.size() != kDigits * algorithm.data.size()) return std::nullopt;
  for (std::size_t i = 0; i < algorithm.data.size(); ++i) {
    const std::string_view digits = text.substr(i * kDigits, kDigits);
    std::from_chars(digits.data(), digits.data() + kDigits, algorithm.data[i], 16);
  }
  if (to_hex(algorithm) != text) return std::nullopt;  // another spelling
  return algorithm;
}

CublasLt::CublasLt() {
  cublasLtHandle_t handle = nullptr;
  check_cublas(cublas_lt().create(&handle), "cublasLtCreate");
  handle_ = handle;
}

CublasLt::~CublasLt() {
  cublas_lt().destroy(static_cast<cublasLtHandle_t>(handle_));
}

std::size_t CublasLt::version() {
  return cublas_lt().version();
}

struct PreparedGemm::Impl {
  GemmKey key;
  Matrix a, b, c;
  Matrix added;  // what key.accumulate adds: C, or another matrix
  cpu::GemmCopies copies;
  Matrix a_shown, b_shown;  // in cuBLASLt's layout: a and b, or the copies without data
  cublasLtHandle_t handle;
  bool empty;  // nothing to multiply: the other members are unused
  bool fused;  // does more than add a bias
  bool into_scratch;
  cublasLtMatmulDescOpaque_t descriptor{};
  cublasLtMatrixLayoutOpaque_t a_layout{}, b_layout{}, c_layout{};
  cublasLtMatmulAlgo_t algorithm{};

  Impl(const CublasLt& library, const GemmKey& wanted, const Matrix& a_matrix, const Matrix& b_matrix,
       const Matrix& c_matrix, const GemmSideMatrices& side, GemmLayout layout)
      : key(wanted),
        a(shaped(a_matrix, key.trans_a, key.m, key.k)),
        b(shaped(b_matrix, key.trans_b, key.k, key.n)),
        c(shaped(c_matrix, false, key.m, key.n)),
        added(side.addend != nullptr ? shaped(*side.addend, false, key.m, key.n) : c),
        copies(cpu::copies_for(layout, key.shape(), key.inputs)),
        a_shown(copies.a ? copies.a->matrix : a),
        b_shown(copies.b ? copies.b->matrix : b),
        handle(static_cast<cublasLtHandle_t>(library.get())),
        empty(key.m == 0 || key.n == 0 || key.k == 0),
        fused(key.epilogue != Epilogue::none || side.bias_gradient != nullptr),
        into_scratch(side.into_scratch) {
    if (empty) return;
    const cpu::GemmShape shown = cpu::shown_as(layout, key.shape());
    const cublasComputeType_t compute = key.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    check_cublas(cublas_lt().init_descriptor(&descriptor, sizeof(descriptor), compute, CUDA_R_32F),
                 "cublasLtMatmulDescInit");
    set<std::int32_t>(descriptor, CUBLASLT_MATMUL_DESC_TRANSA, shown.trans_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    set<std::int32_t>(descriptor, CUBLASLT_MATMUL_DESC_TRANSB, shown.trans_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (const Matrix* const bias = side.bias != nullptr ? side.bias : side.bias_gradient; bias != nullptr) {
      const void* pointer = bias->data;
      set(descriptor, CUBLASLT_MATMUL_DESC_BIAS_POINTER, pointer);
      set<std::int32_t>(descriptor, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, library_type(bias->dtype));
    }
    if (side.second != nullptr) {
      // Transposed like C, so that its rows are the library's columns. By default its dtype is C's.
      const void* pointer = side.second->data;
      set(descriptor, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, pointer);
      set<std::int64_t>(descriptor, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD,
                        std::max(side.second->row_stride, side.second->cols));
    }
    set<std::uint32_t>(descriptor, CUBLASLT_MATMUL_DESC_EPILOGUE, library_epilogue(key, side.bias_gradient != nullptr));
    a_layout = layout_of(a_shown);
    b_layout = layout_of(b_shown);
    c_layout = layout_of(c);
  }

  std::vector<cublasLtMatmulAlgo_t> candidates(int most) {
    std::vector<cublasLtMatmulAlgo_t> found;
    if (empty || most <= 0) return found;
    cublasLtMatmulPreferenceOpaque_t preference{};
    check_cublas(cublas_lt().init_preference(&preference, sizeof(preference)), "cublasLtMatmulPreferenceInit");
    set<std::uint64_t>(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kGemmWorkspace);
    // Parts of a split k are added out of place in a fixed order, never in order of arrival. With a bias or an epilogue
    // k isn't split: some of the library's split algorithms round the product before they add the bias.
    const bool whole = key.has_bias || fused;
    set<std::uint32_t>(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                       whole ? CUBLASLT_REDUCTION_SCHEME_NONE : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
    set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(b_shown));
    set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(a_shown));
    set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(added));
    set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(c));

    std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(most));
    int count = 0;
    const cublasStatus_t status = cublas_lt().heuristic(handle, &descriptor, &b_layout, &a_layout, &c_layout, &c_layout,
                                                        &preference, most, results.data(), &count);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) return found;
    // Some versions return this status for dtypes that an epilogue doesn't support.
    if (status == CUBLAS_STATUS_INVALID_VALUE && fused) return found;
    check_cublas(status, "cublasLtMatmulAlgoGetHeuristic");
    results.resize(static_cast<std::size_t>(count));
    for (const auto& result : results) {
      if (result.state == CUBLAS_STATUS_SUCCESS) found.push_back(result.algo);
    }
    return found;
  }

  // cublasLtMatmulAlgoCheck doesn't know addresses. No algorithm needs more than 16 bytes, the widest access.
  bool alignment_suffices(const cublasLtMatmulAlgo_t& wanted) const {
    constexpr std::uint32_t kWidest = 16;
    const auto suffices = [&](cublasLtMatmulAlgoCapAttributes_t attribute, const Matrix& matrix) {
      if (alignment_of(matrix) >= kWidest) return true;
      std::uint32_t needed = 1;
      std::size_t written = 0;
      const cublasStatus_t status = cublas_lt().capability(&wanted, attribute, &needed, sizeof(needed), &written);
      return status != CUBLAS_STATUS_SUCCESS || needed <= alignment_of(matrix);
    };
    return suffices(CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_A_BYTES, b_shown) &&
           suffices(CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_B_BYTES, a_shown) &&
           suffices(CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_C_BYTES, added) &&
           suffices(CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_D_BYTES, c);
  }

  // The operand, or its copy, made after the library's part of the scratch memory.
  static const void* show(const Launch& launch, const Matrix& operand, const std::optional<cpu::GemmCopy>& copy) {
    if (!copy) return operand.data;
    Matrix to = copy->matrix;
    to.data = launch.scratch + kGemmWorkspace + copy->offset;
    transpose(launch, operand, to);
    return to.data;
  }

  // The library's functions take non-const descriptors, but don't change them.
  cublasStatus_t multiply(const Launch& launch) {
    static constexpr float kOne = 1.0F, kZero = 0.0F;
    if (into_scratch) {
      const void* pointer = launch.scratch + kGemmWorkspace;
      set(descriptor, CUBLASLT_MATMUL_DESC_BIAS_POINTER, pointer);
    }
    const void* const left = show(launch, a, copies.a);
    const void* const right = show(launch, b, copies.b);
    return cublas_lt().matmul(handle, &descriptor, &kOne, right, &b_layout, left, &a_layout,
                              key.accumulate ? &kOne : &kZero, added.data, &c_layout, c.data, &c_layout, &algorithm,
                              launch.scratch, static_cast<std::size_t>(kGemmWorkspace), launch.stream);
  }
};

PreparedGemm::PreparedGemm(const CublasLt& library, const GemmKey& key, const Matrix& a, const Matrix& b,
                           const Matrix& c, const Matrix* bias, const GemmAlgorithm* algorithm, GemmLayout layout) {
  check_arguments(key, a, b, c, bias);
  require(key.epilogue == Epilogue::none, "the key has an epilogue: use with_epilogue()");
  require(cpu::layout_fits(layout, key.shape(), key.inputs),
          "the layout needs no copies, or copies that are too large");
  impl_ = std::make_unique<Impl>(library, key, a, b, c, GemmSideMatrices{.bias = bias}, layout);
  if (impl_->empty) return;
  if (algorithm != nullptr) {
    use(*algorithm);
    return;
  }
  const auto found = impl_->candidates(1);
  if (found.empty()) {
    require(bias == nullptr, "no algorithm of cuBLASLt adds this bias");
    throw RuntimeFault(fmt::format("cuBLASLt: no algorithm for a product of {}×{}×{} ({} to {})", key.m, key.n, key.k,
                                   to_string(key.inputs), to_string(key.output)));
  }
  impl_->algorithm = found.front();
}

PreparedGemm::PreparedGemm(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

std::optional<PreparedGemm> PreparedGemm::with_epilogue(const CublasLt& library, const GemmKey& key, const Matrix& a,
                                                        const Matrix& b, const Matrix& c, const GemmSideMatrices& side,
                                                        const GemmAlgorithm* algorithm) {
  check_arguments(key, a, b, c, side.bias);
  check_side(key, c, side);
  auto impl = std::make_unique<Impl>(library, key, a, b, c, side, GemmLayout::own);
  require(!impl->empty, "an empty product takes no epilogue");
  // Queried even if an algorithm is given: whether the library has the epilogue must not depend on the table.
  const auto found = impl->candidates(1);
  if (found.empty()) return std::nullopt;
  impl->algorithm = found.front();
  PreparedGemm product(std::move(impl));
  if (algorithm != nullptr) product.use(*algorithm);
  return product;
}

PreparedGemm::~PreparedGemm() = default;
PreparedGemm::PreparedGemm(PreparedGemm&&) noexcept = default;
PreparedGemm& PreparedGemm::operator=(PreparedGemm&&) noexcept = default;

std::int64_t PreparedGemm::scratch_bytes() const {
  return kGemmWorkspace + impl_->copies.bytes;
}

void PreparedGemm::run(const Launch& launch) const {
  if (!impl_->empty) {
    check_cublas(impl_->multiply(launch), "cublasLtMatmul");
    return;
  }
  const Matrix& c = impl_->c;
  if (impl_->key.accumulate || c.rows == 0 || c.cols == 0) return;
  const std::size_t element = size_of(c.dtype);
  const auto width = static_cast<std::size_t>(c.cols) * element;
  const auto pitch = static_cast<std::size_t>(std::max(c.row_stride, c.cols)) * element;
  check(cudaMemset2DAsync(c.data, pitch, 0, width, static_cast<std::size_t>(c.rows), launch.stream), "gemm");
}

std::vector<GemmAlgorithm> PreparedGemm::candidates(int most) const {
  std::vector<GemmAlgorithm> found;
  for (const cublasLtMatmulAlgo_t& algorithm : impl_->candidates(most))
    found.push_back(std::bit_cast<GemmAlgorithm>(algorithm));
  return found;
}

void PreparedGemm::use(const GemmAlgorithm& algorithm) {
  if (impl_->empty) return;
  const cublasLtMatmulAlgo_t wanted = std::bit_cast<cublasLtMatmulAlgo_t>(algorithm);
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status =
      cublas_lt().check_algorithm(impl_->handle, &impl_->descriptor, &impl_->b_layout, &impl_->a_layout,
                                  &impl_->c_layout, &impl_->c_layout, &wanted, &result);
  require(status == CUBLAS_STATUS_SUCCESS, "cuBLASLt refuses the algorithm");
  require(result.workspaceSize <= static_cast<std::size_t>(kGemmWorkspace), "the algorithm needs more workspace");
  require(impl_->alignment_suffices(wanted), "the algorithm needs buffers of a larger alignment");
  impl_->algorithm = wanted;
}

namespace {

// cuBLASLt's requirements for its second matrix (CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD), and equal strides for both:
// tuned algorithms are kept by C's stride. cuBLASLt has no epilogue that adds a bias before GELU's gradient or beside a
// bias's gradient, which it writes in C's dtype.
bool can_fuse(const GemmKey& key, const Matrix& c, const Matrix& other) {
  constexpr std::int64_t kStrideUnit = 8;
  constexpr std::uintptr_t kAlignment = 16;
  const auto aligned = [](const Matrix& matrix) {
    return reinterpret_cast<std::uintptr_t>(matrix.data) % kAlignment == 0;
  };
  if (key.m == 0 || key.n == 0 || key.k == 0) return false;
  if (key.epilogue == Epilogue::bias_gradient) return !key.has_bias && c.dtype == other.dtype && aligned(other);
  if (key.accumulate || c.row_stride != other.row_stride) return false;
  if (key.epilogue == Epilogue::add) return true;
  return (key.epilogue != Epilogue::gelu_gradient || !key.has_bias) &&
         std::max(c.row_stride, c.cols) % kStrideUnit == 0 && aligned(c) && aligned(other);
}

}  // namespace

GemmWithEpilogue::GemmWithEpilogue(const CublasLt& library, const GemmKey& key, const Matrix& a, const Matrix& b,
                                   const Matrix& c, const Matrix* bias, const Matrix* other,
                                   const GemmAlgorithm* algorithm, GemmLayout layout)
    : scratch_bytes_(gemm_scratch_bytes(key, layout)) {
  if (other != nullptr && layout != GemmLayout::own) {
    throw std::logic_error("cuda::GemmWithEpilogue: an epilogue needs the product's own layout");
  }
  if ((other != nullptr) != (key.epilogue != Epilogue::none)) {
    throw std::logic_error("cuda::GemmWithEpilogue: an epilogue and its matrix must be given together");
  }
  if (other != nullptr && can_fuse(key, c, *other) && fuse(library, key, a, b, c, bias, *other, algorithm)) return;
  GemmKey plain = key;
  plain.epilogue = Epilogue::none;
  product_.emplace(library, plain, a, b, c, bias, algorithm, layout);
  if (other == nullptr) return;
  behind_ = Behind{key.epilogue, c, *other, shaped(a, key.trans_a, key.m, key.k), key.accumulate};
}

// Whether the library has such a product.
bool GemmWithEpilogue::fuse(const CublasLt& library, const GemmKey& key, const Matrix& a, const Matrix& b,
                            const Matrix& c, const Matrix* bias, const Matrix& other, const GemmAlgorithm* algorithm) {
  GemmKey asked = key;
  GemmSideMatrices side{.bias = bias};
  const Matrix* written = &c;
  switch (key.epilogue) {
    case Epilogue::add:
      asked.epilogue = Epilogue::none, asked.accumulate = true;
      side.addend = &other;
      break;
    case Epilogue::bias_gradient:  // which the library can't add to an earlier one
      asked.epilogue = Epilogue::none;
      side.addend = key.accumulate ? &c : nullptr;
      side.bias_gradient = &other, side.into_scratch = key.accumulate;
      break;
    case Epilogue::gelu:  // the library's C is the epilogue's result, and its second matrix the epilogue's input
      side.second = &c, written = &other;
      break;
    case Epilogue::gelu_gradient:
    case Epilogue::none:
      side.second = &other;
  }
  product_ = PreparedGemm::with_epilogue(library, asked, a, b, *written, side, algorithm);
  if (product_ && side.into_scratch) updated_ = other;
  return product_.has_value();
}

void GemmWithEpilogue::run(const Launch& launch) const {
  product_->run(launch);
  if (updated_) {
    Matrix sums = *updated_;
    sums.data = launch.scratch + kGemmWorkspace;
    add(launch, *updated_, sums, *updated_);
  }
  if (!behind_) return;
  const auto& [epilogue, c, other, a, accumulate] = *behind_;
  if (epilogue == Epilogue::add) {
    add(launch, other, c, c);
  } else if (epilogue == Epilogue::gelu) {
    gelu_forward(launch, c, other);
  } else if (epilogue == Epilogue::gelu_gradient) {
    gelu_backward(launch, other, c, c);
  } else {
    bias_gradient(launch, a, other, accumulate);
  }
}

}  // namespace weft::cuda
