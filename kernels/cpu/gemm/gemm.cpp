// Matrix products over oneDNN; see gemm.h.
#include "kernels/cpu/gemm/gemm.h"

#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <utility>
#include <vector>

#include "kernels/cpu/chunks.h"
#include "kernels/cpu/gemm/packed_gemm.h"
#include "kernels/cpu/simd.h"

namespace weft::cpu {
namespace {

// Converted slices are multiplied in steps of this many columns of A, so that scratch stays in the cache.
constexpr std::int64_t kConvertDepth = 512;

// Up to this many rows, x·Wᵀ in bf16 reads each weight once, at memory speed, instead of copying it first.
constexpr std::int64_t kDotRows = 4;

struct Slice {
  std::int64_t row, col, rows, cols;
};

GemmSlices slices_of(const GemmShape& shape, const GemmMethod& method) {
  const std::int64_t rows = std::min(method.rows, shape.m), cols = std::min(method.cols, shape.n);
  return {rows, cols, ceil_div(shape.m, rows), ceil_div(shape.n, cols)};
}

Slice slice_at(const GemmShape& shape, const GemmSlices& slices, std::int64_t index) {
  const std::int64_t row = index / slices.col_blocks * slices.rows, col = index % slices.col_blocks * slices.cols;
  return {row, col, std::min(slices.rows, shape.m - row), std::min(slices.cols, shape.n - col)};
}

// Offset of element (row, col) of op(X).
std::int64_t offset_of(const Matrix& matrix, bool transposed, std::int64_t row, std::int64_t col) {
  return transposed ? col * matrix.row_stride + row : row * matrix.row_stride + col;
}

// Initialises C's slice in fp32: with the values in `c` if it accumulates, plus the bias if there is one. Returns beta:
// 0 if there is nothing to add to.
template <class C, class Bias>
float start_slice(const Slice& slice, const C* c, std::int64_t stride, bool accumulate, const Bias* bias, float* to,
                  std::int64_t to_stride) {
  if (!accumulate && bias == nullptr) return 0.0F;
  for (std::int64_t row = 0; row < slice.rows; ++row) {
    const C* in = c + row * stride;
    float* out = to + row * to_stride;
    for_vectors(slice.cols, [&](std::int64_t i, auto lanes) {
      const Floats before = accumulate ? lanes.load(in + i) : Floats{};
      lanes.store(out + i, bias != nullptr ? before + lanes.load(bias + i) : before);
    });
  }
  return 1.0F;
}

dnnl::memory::data_type library_type(DType dtype) {
  return dtype == DType::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

// Null if the matrix has no data yet.
std::byte* address(const Matrix& matrix, std::int64_t offset) {
  if (matrix.data == nullptr) return nullptr;
  return static_cast<std::byte*>(matrix.data) + offset * static_cast<std::int64_t>(size_of(matrix.dtype));
}

// The addresses of a slice's rows of op(A) and of its columns of op(B).
std::byte* address_of_rows(const GemmShape& shape, const Matrix& a, const Slice& slice) {
  return address(a, offset_of(a, shape.trans_a, slice.row, 0));
}
std::byte* address_of_cols(const GemmShape& shape, const Matrix& b, const Slice& slice) {
  return address(b, offset_of(b, shape.trans_b, 0, slice.col));
}

// oneDNN matmul primitives for the slices: one for each distinct slice shape, and memory handles for each slice.
class NativeSlices {
 public:
  NativeSlices(const GemmShape& shape, const GemmArguments& arguments, const GemmSlices& slices)
      : engine_(dnnl::engine::kind::cpu, 0) {
    std::map<std::pair<std::int64_t, std::int64_t>, dnnl::matmul> primitives;
    const std::int64_t count = slices.row_blocks * slices.col_blocks;
    calls_.reserve(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) {
      const Slice slice = slice_at(shape, slices, i);
      const auto source = descriptor(arguments.a, slice.rows, shape.k, shape.trans_a);
      const auto weights = descriptor(arguments.b, shape.k, slice.cols, shape.trans_b);
      const auto target = descriptor(arguments.c, slice.rows, slice.cols, false);
      const auto bias = arguments.bias ? descriptor(*arguments.bias, 1, slice.cols, false) : dnnl::memory::desc{};
      auto [found, fresh] = primitives.try_emplace({slice.rows, slice.cols});
      if (fresh) found->second = create(source, weights, bias, target, shape.accumulate);
      calls_.push_back(Call{found->second, dnnl::stream(engine_), {}, {}});
      Call& call = calls_.back();
      const auto bind = [&](int role, const dnnl::memory::desc& desc, void* data) {
        call.memories.emplace_back(desc, engine_, data);
        call.arguments.push_back({role, call.memories.back().get()});
      };
      bind(DNNL_ARG_SRC, source, address_of_rows(shape, arguments.a, slice));
      bind(DNNL_ARG_WEIGHTS, weights, address_of_cols(shape, arguments.b, slice));
      bind(DNNL_ARG_DST, target, address(arguments.c, offset_of(arguments.c, false, slice.row, slice.col)));
      if (arguments.bias) bind(DNNL_ARG_BIAS, bias, address(*arguments.bias, slice.col));
      bind(DNNL_ARG_SCRATCHPAD, scratchpad_, nullptr);
    }
  }

  std::size_t worker_bytes() const { return scratchpad_.get_size(); }

  // For slice `index`: sets the address of an operand that is in scratch and had none before.
  void move_a(std::int64_t index, std::byte* to) const { move(index, 0, to); }
  void move_b(std::int64_t index, std::byte* to) const { move(index, 1, to); }

  void run(std::int64_t index, std::byte* scratch) const {
    const Call& call = calls_[static_cast<std::size_t>(index)];
    move(index, call.memories.size() - 1, scratch);
    dnnl::error::wrap_c_api(dnnl_primitive_execute(call.primitive.get(), call.stream.get(),
                                                   static_cast<int>(call.arguments.size()), call.arguments.data()),
                            "matmul");
  }

 private:
  struct Call {
    dnnl::matmul primitive;
    dnnl::stream stream;
    std::vector<dnnl::memory> memories;  // A and B first, the scratchpad last
    std::vector<dnnl_exec_arg_t> arguments;
  };

  // The C interface is used because the C++ interface builds a container in every call.
  void move(std::int64_t index, std::size_t memory, std::byte* to) const {
    const Call& call = calls_[static_cast<std::size_t>(index)];
    dnnl::error::wrap_c_api(dnnl_memory_set_data_handle(call.memories[memory].get(), to),
                            "dnnl_memory_set_data_handle");
  }

  static dnnl::memory::desc descriptor(const Matrix& matrix, std::int64_t rows, std::int64_t cols, bool transposed) {
    const std::int64_t stride = std::max<std::int64_t>(matrix.row_stride, transposed ? rows : cols);
    const dnnl::memory::dims strides = transposed ? dnnl::memory::dims{1, stride} : dnnl::memory::dims{stride, 1};
    return {dnnl::memory::dims{rows, cols}, library_type(matrix.dtype), strides};
  }

  dnnl::matmul create(const dnnl::memory::desc& source, const dnnl::memory::desc& weights,
                      const dnnl::memory::desc& bias, const dnnl::memory::desc& target, bool accumulate) {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (accumulate) {
      dnnl::post_ops sum;
      sum.append_sum(1.0F);
      attributes.set_post_ops(sum);
    }
    const dnnl::matmul::primitive_desc chosen(dnnl::matmul::desc(source, weights, bias, target), attributes, engine_);
    if (chosen.scratchpad_desc().get_size() > scratchpad_.get_size()) scratchpad_ = chosen.scratchpad_desc();
    return dnnl::matmul(chosen);
  }

  dnnl::engine engine_;
  dnnl::memory::desc scratchpad_;  // the largest of all slices
  std::vector<Call> calls_;
};

}  // namespace

struct PreparedGemm::Impl {
  GemmShape shape;          // in the layout that the engine reads
  GemmArguments arguments;  // as given by the caller
  GemmCopies copies;        // that the engine reads instead
  GemmSlices slices;
  std::optional<NativeSlices> native;
  std::optional<PackedGemm> packed;

  std::int64_t convert_depth() const { return std::min(shape.k, kConvertDepth); }

  // The arguments with their copies; the copies begin at `scratch`.
  GemmArguments shown(std::byte* scratch) const {
    GemmArguments as = arguments;
    const auto show = [&](const std::optional<GemmCopy>& copy, Matrix& matrix) {
      if (!copy) return;
      matrix = copy->matrix;
      if (scratch != nullptr) matrix.data = scratch + copy->offset;
    };
    show(copies.a, as.a);
    show(copies.b, as.b);
    return as;
  }

  void make_copies(Workers& workers, const GemmArguments& as) const {
    const auto rows_and_cols = [](Matrix matrix, const Matrix& copy) {
      matrix.rows = copy.cols, matrix.cols = copy.rows;
      return matrix;
    };
    if (copies.a) transpose(workers, rows_and_cols(arguments.a, as.a), as.a);
    if (copies.b) transpose(workers, rows_and_cols(arguments.b, as.b), as.b);
  }

  void run_native(std::int64_t index, const GemmArguments& as, std::byte* scratch) const {
    const Slice slice = slice_at(shape, slices, index);
    if (copies.a) native->move_a(index, address_of_rows(shape, as.a, slice));
    if (copies.b) native->move_b(index, address_of_cols(shape, as.b, slice));
    native->run(index, scratch);
  }

  // Reads and writes the caller's memory directly, except for copies.
  void run_f32(const Slice& slice, const GemmArguments& as) const {
    const Matrix &a = as.a, &b = as.b, &c = as.c;
    const std::optional<Matrix>& bias = as.bias;
    float* out = c.f32(slice.row) + slice.col;
    float beta = shape.accumulate ? 1.0F : 0.0F;
    if (bias) {
      with_element_type(bias->dtype, [&]<class Bias>(std::type_identity<Bias>) {
        beta = start_slice(slice, out, c.row_stride, shape.accumulate, elements<Bias>(*bias) + slice.col, out,
                           c.row_stride);
      });
    }
    multiply_tiles(shape.trans_a, shape.trans_b, slice.rows, slice.cols, shape.k,
                   a.f32() + offset_of(a, shape.trans_a, slice.row, 0), a.row_stride,
                   b.f32() + offset_of(b, shape.trans_b, 0, slice.col), b.row_stride, beta, out, c.row_stride);
  }

  // out = beta·out + A·Bᵀ for the slice: dot products of rows of A with rows of B.
  void add_dots(const Slice& slice, const GemmArguments& as, float beta, float* out, std::int64_t stride) const {
    for (std::int64_t col = 0; col < slice.cols; ++col) {
      const bf16* b = as.b.b16(slice.col + col);
      for (std::int64_t row = 0; row < slice.rows; ++row) {
        const bf16* a = as.a.b16(slice.row + row);
        const float total =
            sum_vectors(shape.k, [&](std::int64_t i, auto lanes) { return lanes.load(a + i) * lanes.load(b + i); });
        float& target = out[row * stride + col];
        target = beta == 0.0F ? total : target + total;
      }
    }
  }

  // bf16 A and B: fp32 copies of the slice's parts, step by step along k; rounded once at the end.
  void run_converting(const Slice& slice, const GemmArguments& as, std::byte* scratch) const {
    const Matrix &a = as.a, &b = as.b, &c = as.c;
    const std::optional<Matrix>& bias = as.bias;
    const std::int64_t depth = convert_depth();
    ScratchParts parts(scratch);
    float* left = parts.floats(slice.rows * depth);
    float* right = parts.floats(depth * slice.cols);
    const bool direct = c.dtype == DType::f32;
    float* out = direct ? c.f32(slice.row) + slice.col : parts.floats(slice.rows * slice.cols);
    const std::int64_t stride = direct ? c.row_stride : slice.cols;
    float beta = 0.0F;
    with_element_type(c.dtype, [&]<class C>(std::type_identity<C>) {
      const C* before = elements<C>(c, slice.row) + slice.col;
      with_element_type(bias ? bias->dtype : c.dtype, [&]<class Bias>(std::type_identity<Bias>) {
        const Bias* added = bias ? elements<Bias>(*bias) + slice.col : nullptr;
        beta = start_slice(slice, before, c.row_stride, shape.accumulate, added, out, stride);
      });
    });
    const bool dots = slice.rows <= kDotRows && !shape.trans_a && shape.trans_b;
    if (dots) add_dots(slice, as, beta, out, stride);
    for (std::int64_t k = 0; k < shape.k && !dots; k += depth) {
      const std::int64_t step = std::min(depth, shape.k - k);
      const std::int64_t left_cols = shape.trans_a ? slice.rows : step, right_cols = shape.trans_b ? step : slice.cols;
      convert_rows(a.b16() + offset_of(a, shape.trans_a, slice.row, k), a.row_stride, shape.trans_a ? step : slice.rows,
                   left_cols, left, left_cols);
      convert_rows(b.b16() + offset_of(b, shape.trans_b, k, slice.col), b.row_stride, shape.trans_b ? slice.cols : step,
                   right_cols, right, right_cols);
      multiply_tiles(shape.trans_a, shape.trans_b, slice.rows, slice.cols, step, left, left_cols, right, right_cols,
                     beta, out, stride);
      beta = 1.0F;
    }
    if (!direct) convert_rows(out, stride, slice.rows, slice.cols, c.b16(slice.row) + slice.col, c.row_stride);
  }
};

PreparedGemm::PreparedGemm(const GemmShape& shape, const GemmArguments& arguments)
    : PreparedGemm(shape, arguments, default_gemm_method(shape, arguments.a.dtype, arguments.c.dtype)) {}

PreparedGemm::PreparedGemm(const GemmShape& shape, const GemmArguments& arguments, const GemmMethod& method,
                           PackedUnit bf16)
    : impl_(std::make_unique<Impl>(Impl{shape, arguments, {}, {}, {}, {}})) {
  const DType inputs = arguments.a.dtype, output = arguments.c.dtype;
  const bool known =
      inputs == arguments.b.dtype && ((inputs == DType::f32 && output == DType::f32) ||
                                      (inputs == DType::bf16 && (output == DType::f32 || output == DType::bf16)));
  if (!known) throw std::logic_error("gemm: A and B must both be f32 (with C f32) or both bf16 (with C f32 or bf16)");
  if (!can_run(method, shape, inputs, output)) throw std::logic_error("gemm: cannot run by " + to_string(method));
  if (method.engine == GemmMethod::Engine::packed) {
    impl_->packed.emplace(shape, arguments, method.rows, method.cols, packed_unit(inputs, bf16));
    return;
  }
  if (arguments.packed_b != nullptr) throw std::logic_error("gemm: a packed B, and engine " + to_string(method));
  impl_->shape = shown_as(method.layout, shape);
  impl_->copies = copies_for(method.layout, shape, inputs);
  impl_->slices = slices_of(shape, method);
  // oneDNN fixes a primitive's number of threads when it is created: one thread, since one worker computes a slice.
  prepare_thread();
  if (method.engine != GemmMethod::Engine::matmul) return;
  impl_->native.emplace(impl_->shape, impl_->shown(nullptr), impl_->slices);
}

PreparedGemm::~PreparedGemm() = default;
PreparedGemm::PreparedGemm(PreparedGemm&&) noexcept = default;
PreparedGemm& PreparedGemm::operator=(PreparedGemm&&) noexcept = default;

Scratch PreparedGemm::scratch() const {
  if (impl_->packed) return impl_->packed->scratch();
  const auto shared = static_cast<std::size_t>(impl_->copies.bytes);
  if (impl_->native) return {impl_->native->worker_bytes(), shared};
  if (impl_->arguments.a.dtype == DType::f32) return {0, shared};
  const std::int64_t depth = impl_->convert_depth(), rows = impl_->slices.rows, cols = impl_->slices.cols;
  return {ScratchParts::bytes(rows * depth) + ScratchParts::bytes(depth * cols) + ScratchParts::bytes(rows * cols),
          shared};
}

void PreparedGemm::run(Workers& workers) const {
  const Impl& impl = *impl_;
  if (impl.packed) return impl.packed->run(workers);
  const GemmArguments as = impl.shown(workers.shared_scratch());
  impl.make_copies(workers, as);
  workers.run(impl.slices.row_blocks * impl.slices.col_blocks, [&](std::int64_t index) {
    if (impl.native) return impl.run_native(index, as, workers.worker_scratch());
    const Slice slice = slice_at(impl.shape, impl.slices, index);
    if (as.a.dtype == DType::f32) return impl.run_f32(slice, as);
    impl.run_converting(slice, as, workers.worker_scratch());
  });
}

void multiply_tiles(bool trans_a, bool trans_b, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
                    std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc) {
  // A view of one row may have any stride; the library requires a valid stride.
  lda = std::max(lda, trans_a ? m : k), ldb = std::max(ldb, trans_b ? k : n), ldc = std::max(ldc, n);
  const dnnl_status_t status =
      dnnl_sgemm(trans_a ? 'T' : 'N', trans_b ? 'T' : 'N', m, n, k, 1.0F, a, lda, b, ldb, beta, c, ldc);
  dnnl::error::wrap_c_api(status, "sgemm");
}

}  // namespace weft::cpu
