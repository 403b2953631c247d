// Every operation on the GPU compared with the CPU's kernel: random inputs, poisoned outputs, several shapes and both
// float types.
#include "runtime/execute/cuda/cuda_tasks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/gpu/operation_case.h"

namespace weft {
namespace {

using cpu::Matrix;
using cpu::testing::Tensor;
using testing::check;
using testing::integer;
using testing::kFloats;
using testing::of_dtype;
using testing::padded;
using testing::positive;
using testing::small;
using testing::tokens;

constexpr cpu::testing::Tolerance kExact{0, 0}, kClose{1e-6, 1e-6}, kOfSums{1e-4, 1e-3};

// A product that libraries split along k, and rows of which each team of threads has several. An emulated GPU gets
// small ones, since its products are split and its teams formed in the same way whatever their size.
constexpr std::array<std::int64_t, 3> kManyTerms = {testing::kEmulated ? 24 : 128, testing::kEmulated ? 40 : 128,
                                                    testing::kEmulated ? 1024 : 8192};
constexpr std::array<std::int64_t, 2> kManyRows = {testing::kEmulated ? 4400 : 5000, testing::kEmulated ? 64 : 768};

class CudaTasks : public testing::GpuTest {};

TEST_F(CudaTasks, Gemm) {
  for (const DType dtype : kFloats) {
    for (const auto& [m, n, k] :
         {std::array<std::int64_t, 3>{64, 96, 128}, {33, 65, 17}, {1, 512, 64}, {256, 8, 40}, kManyTerms}) {
      for (int bits = 0; bits < 16; ++bits) {
        const graph::Gemm op{m, n, k, (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0};
        if (op.has_bias && op.accumulate) continue;
        check(op, dtype, {1e-4, 1e-4 * std::max(1.0, static_cast<double>(k) / 256)},
              {{"C", of_dtype(op.accumulate ? DType::f32 : dtype)}});
      }
    }
  }
}

TEST_F(CudaTasks, GemmOnWindows) {
  for (const DType dtype : kFloats) {
    check(graph::Gemm{64, 32, 48, false, true, false, true}, dtype, {1e-4, 1e-4},
          {{"A", padded(16)}, {"C", padded(64)}});
  }
}

// Shapes that the library's epilogues support, and shapes that need a product and a separate kernel: row lengths that 8
// doesn't divide, other strides, a bias before the gradient. Small numbers in few columns, where GELU isn't linear.
TEST_F(CudaTasks, GemmWithGelu) {
  for (const DType dtype : kFloats) {
    for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{64, 96, 128},
                                  {testing::kEmulated ? 64 : 256, 512, 40},
                                  {33, 65, 17},
                                  {1, 512, 64}}) {
      const double tolerance = 1e-4 + (dtype == DType::bf16 ? 0x1p-7 : 0);
      for (int bits = 0; bits < 8; ++bits) {
        const bool forward = (bits & 1) != 0, bias = (bits & 2) != 0;
        const std::int64_t padding = (bits & 4) != 0 ? 64 : 0;
        const Epilogue epilogue = forward ? Epilogue::gelu : Epilogue::gelu_gradient;
        check(graph::Gemm{m, n, k, false, forward, false, bias, false, epilogue}, dtype, {tolerance, tolerance},
              {{"A", small()}, {"gelu", padded(padding)}, {"x", padded(padding)}});
      }
    }
  }
}

// With the library's β = 1, and shapes for which a kernel adds after the product.
TEST_F(CudaTasks, GemmWithAddend) {
  for (const DType dtype : kFloats) {
    for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{64, 96, 128}, {33, 65, 17}, {1, 512, 64}}) {
      const double tolerance = 1e-4 + (dtype == DType::bf16 ? 0x1p-7 : 0);
      for (int bits = 0; bits < 8; ++bits) {
        const bool transposed = (bits & 1) != 0, bias = (bits & 2) != 0;
        const std::int64_t padding = (bits & 4) != 0 ? 64 : 0;
        check(graph::Gemm{m, n, k, false, transposed, false, bias, false, Epilogue::add}, dtype, {tolerance, tolerance},
              {{"A", small()}, {"addend", padded(padding)}});
      }
    }
  }
}

// With the library's BGRADB, which writes sums alone, and of products that have none.
TEST_F(CudaTasks, GemmWithBiasGradient) {
  for (const DType dtype : kFloats) {
    for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{64, 96, 128}, {33, 65, 17}, {512, 1, 64}, {8, 8, 1}}) {
      for (const bool accumulate : {false, true}) {
        const graph::Gemm op{
            .m = m, .n = n, .k = k, .trans_a = true, .accumulate = accumulate, .epilogue = Epilogue::bias_gradient};
        check(op, dtype, kOfSums, {{"C", of_dtype(DType::f32)}});
        if (dtype == DType::bf16 && !accumulate) check(op, dtype, kOfSums);  // the library can't write fp32 beside bf16
      }
    }
  }
}

TEST_F(CudaTasks, BiasGradient) {
  for (const DType dtype : kFloats) {
    for (const auto& [rows, cols] : {std::array<std::int64_t, 2>{1000, 768}, {7, 3}, {513, 2304}, {4096, 50}}) {
      for (const bool accumulate : {false, true}) check(graph::BiasGradient{rows, cols, accumulate}, dtype, kOfSums);
    }
  }
}

template <bool kCentered>
void check_norm() {
  for (const DType dtype : kFloats) {
    for (const auto& [rows, cols] : {std::array<std::int64_t, 2>{70, 768},
                                     {5, 1},
                                     {33, 129},
                                     {300, 64},
                                     {9, 4096},
                                     {17, 1600},
                                     {3, 10000},
                                     {40, 1280},
                                     {20, 1536},
                                     kManyRows}) {
      if (kCentered && cols == 1) continue;  // everything is 0/0 except for eps
      check(graph::NormForward<kCentered>{rows, cols, 1e-5F}, dtype, {2e-5, 2e-5});
      for (const bool residual : {false, true}) {
        check(graph::NormBackward<kCentered>{rows, cols, residual, residual}, dtype, kOfSums, {{"rstd", positive()}});
      }
    }
  }
}

TEST_F(CudaTasks, LayerNorm) {
  check_norm<true>();
}

TEST_F(CudaTasks, RmsNorm) {
  check_norm<false>();
}

// Of queries and keys: windows of the rows of Q, K and V.
TEST_F(CudaTasks, RmsNormsOfWindows) {
  constexpr std::int64_t rows = 37, cols = 40, parts = 3;
  for (const DType dtype : kFloats) {
    for (const std::int64_t padding : {5, 16}) {
      const auto x = padded(padding), y = padded(2 * padding);
      check(graph::RmsNormForward{rows, cols, 1e-5F}, dtype, {2e-5, 2e-5}, {{"x", x}, {"y", y}});
      check(graph::RmsNormBackward{rows, cols}, dtype, kOfSums, {{"rstd", positive()}, {"x", x}, {"dy", y}, {"dx", x}});
      check(graph::NormStatistics{{rows, cols, false}}, dtype, {1e-5, 1e-5}, {{"x", x}});
      check(graph::NormForwardOfParts{rows, cols, parts, 1e-5F, false}, dtype, {1e-4, 1e-4},
            {{"statistics", positive()}, {"x", x}, {"y", y}});
      check(graph::NormBackwardSums{{rows, cols, false}}, dtype, kOfSums, {{"rstd", positive()}, {"x", x}, {"dy", y}});
      check(graph::NormBackwardOfParts{rows, cols, parts, false}, dtype, kOfSums,
            {{"rstd", positive()}, {"x", x}, {"dy", y}, {"dx", x}});
    }
  }
}

TEST_F(CudaTasks, HeadNorm) {
  struct Shape {
    std::int64_t rows, heads, head_dim;
  };
  for (const DType dtype : kFloats) {
    for (const Shape s : {Shape{70, 3, 64}, Shape{5, 1, 2}, Shape{33, 2, 130}, Shape{600, 4, 22}}) {
      check(graph::HeadNormForward{s.rows, s.heads, s.head_dim, 1e-5F}, dtype, {2e-5, 2e-5}, {{"x", padded(16)}});
      for (const bool accumulate : {false, true}) {
        check(graph::HeadNormBackward{s.rows, s.heads, s.head_dim, accumulate}, dtype, kOfSums, {{"rstd", positive()}});
      }
    }
  }
}

TEST_F(CudaTasks, NormsOfParts) {
  constexpr std::int64_t rows = 37, cols = 96, parts = 3;
  for (const DType dtype : kFloats) {
    for (const bool centered : {false, true}) {
      check(graph::NormStatistics{rows, cols, centered}, dtype, {1e-5, 1e-5});
      check(graph::NormForwardOfParts{rows, cols, parts, 1e-5F, centered}, dtype, {1e-4, 1e-4},
            {{"statistics", positive()}});
      check(graph::NormBackwardSums{rows, cols, centered}, dtype, kOfSums, {{"rstd", positive()}});
      for (const bool residual : {false, true}) {
        check(graph::NormBackwardOfParts{rows, cols, parts, centered, residual, residual}, dtype, kOfSums,
              {{"rstd", positive()}});
      }
    }
  }
}

TEST_F(CudaTasks, Columns) {
  for (const DType dtype : kFloats) {
    for (const std::int64_t coordinate : {0, 3}) {
      check(graph::AddBias{19, 40}, dtype, kClose, {{"coordinate", integer(coordinate)}});
      check(graph::TakeColumns{19, 40, 2, 2}, dtype, kExact, {{"coordinate", integer(coordinate)}});
      for (const bool accumulate : {false, true}) {
        check(graph::PutColumns{{19, 40, 2, 2}, accumulate}, dtype, kExact, {{"coordinate", integer(coordinate)}});
        check(graph::PutColumns{{1, 21, 2, 2}, accumulate}, dtype, kExact, {{"coordinate", integer(coordinate)}});
      }
    }
  }
}

TEST_F(CudaTasks, Embedding) {
  for (const DType dtype : kFloats) {
    for (const auto& [rows, cols] : {std::array<std::int64_t, 2>{64, 96}, {300, 33}, {2048, 64}}) {
      constexpr std::int64_t vocab = 100, context = 64;
      check(graph::EmbeddingForward{rows, cols, vocab, 32}, dtype, kExact, {{"tokens", tokens(vocab)}});
      check(graph::EmbeddingForward{rows, cols, vocab, 32, true, true}, dtype, kClose,
            {{"tokens", tokens(vocab)}, {"wpe", {.rows = context}}, {"position", integer(5)}});
      check(graph::EmbeddingForward{rows, cols, vocab / 2, 32, false, false, true}, dtype, kExact,
            {{"tokens", tokens(vocab)}, {"coordinate", integer(1)}});
      for (const bool accumulate : {false, true}) {
        check(graph::EmbeddingBackward{rows, cols, vocab, accumulate}, dtype, kOfSums, {{"tokens", tokens(vocab)}});
        check(graph::EmbeddingBackward{rows, cols, vocab / 2, accumulate, true}, dtype, kOfSums,
              {{"tokens", tokens(vocab)}, {"coordinate", integer(1)}});
        const std::int64_t seq = rows % 32 == 0 ? 32 : rows / 10;
        check(graph::PositionBackward{rows, cols, seq, context, accumulate}, dtype, {1e-5, 1e-4});
        check(graph::PositionBackward{rows, cols, seq, context, accumulate, true}, dtype, {1e-5, 1e-4},
              {{"position", integer(std::min(seq, context - seq))}});
      }
    }
  }
}

TEST_F(CudaTasks, Rope) {
  for (const DType dtype : kFloats) {
    for (const bool inverse : {false, true}) {
      graph::Rope op{128, 3, 64, 32};
      op.inverse = inverse;
      check(op, dtype, {2e-5, 2e-5});
      op.has_offset = true;
      op.scaling_factor = 8;
      check(op, dtype, {2e-4, 2e-4}, {{"position", integer(1000)}});
      op.scaling = graph::RopeKind::yarn;
      op.high_freq_factor = 32;
      op.attention_factor = 1.25F;
      check(op, dtype, {3e-4, 3e-4}, {{"position", integer(1000)}});
    }
  }
}

struct AttentionCase {
  std::int64_t batch, seq, heads, kv_heads, head_dim, window = 0;
  std::vector<std::int64_t> documents = {};  // their lengths; empty: one a sequence
  float scale = 0.0F;

  // Both forms of masks, where both can run.
  std::vector<execute::GpuKernels> forms(DType dtype) const {
    const bool masked = window > 0 || !documents.empty();
    if (dtype != DType::bf16 || !masked || (head_dim != 64 && head_dim != 128)) return {{}};
    return {{}, {.masked_mma = true}};
  }
  std::vector<std::int32_t> starts() const { return cpu::testing::starts_of_documents(batch, seq, documents); }
};

const std::vector<AttentionCase> kAttentionCases = {
    {2, 64, 3, 3, 64},
    {1, 100, 4, 2, 64},
    {2, 33, 2, 1, 128},
    {1, 257, 2, 2, 32},
    {3, 16, 2, 2, 8},
    {2, 128, testing::kEmulated ? 3 : 12, testing::kEmulated ? 3 : 12, 64},
    {1, 330, 2, 1, 64},
    {1, 330, 1, 1, 128},
    {1, 330, 2, 1, 64, 70},
    {2, 90, 2, 2, 16, 1},
    {1, 200, 1, 1, 130, 100},
    {2, 150, 2, 1, 64, 0, {100, 3, 1, 90}},
    {1, 140, 1, 1, 16, 30, {64, 20}},
    {1, 330, 2, 1, 64, 40, {200, 90}},
    {2, 90, 1, 1, 64, 1},
    {1, 330, 1, 1, 128, 150},
    {2, 150, 2, 2, 128, 0, {100, 3, 1, 90}},
    {1, 100, 2, 1, 64, 0, {}, 0.3F},
    {1, 90, 2, 2, 22, 0, {}, 0.02F}};

TEST_F(CudaTasks, Attention) {
  for (const DType dtype : kFloats) {
    for (const AttentionCase& s : kAttentionCases) {
      const auto starts = s.starts();
      for (const execute::GpuKernels& form : s.forms(dtype)) {
        check(graph::AttentionForward{s.batch, s.seq, s.heads, s.kv_heads, s.head_dim, s.window, !starts.empty(),
                                      s.scale},
              dtype, {1e-3, dtype == DType::bf16 ? 2e-2 : 1e-4},
              {{"q", padded(16)},
               {"document_starts", {.fill = testing::Fill::integers, .integers = {starts.begin(), starts.end()}}}},
              form);
      }
    }
  }
}

// The backward pass needs a matching out and log-sum-exp: the CPU's forward pass gives them.
TEST_F(CudaTasks, AttentionBackward) {
  for (const DType dtype : kFloats) {
    for (const AttentionCase& s : kAttentionCases) {
      SCOPED_TRACE(::testing::Message() << to_string(dtype) << " seq " << s.seq << " heads " << s.heads << "/"
                                        << s.kv_heads << " of " << s.head_dim);
      const std::int64_t rows = s.batch * s.seq, qc = s.heads * s.head_dim, kvc = s.kv_heads * s.head_dim;
      const auto random = [&](std::int64_t cols) { return Tensor::random(dtype, rows, cols, std::random_device{}()); };
      Tensor q = random(qc), k = random(kvc), v = random(kvc), dout = random(qc);
      Tensor o(dtype, rows, qc), log_sum_exp(DType::f32, 1, s.batch * s.heads * s.seq);
      Tensor dq(dtype, rows, qc), dk(dtype, rows, kvc), dv(dtype, rows, kvc);
      cpu::Workers workers(2);
      const auto on_cpu = [&](const graph::Operation& op, const std::vector<Matrix>& arguments) {
        const execute::PreparedTask task(op, arguments);
        workers.reserve(task.scratch());
        task.run(workers);
      };
      const std::vector<std::int32_t> starts = s.starts();
      const bool documents = !starts.empty();
      Tensor document_starts = Tensor::integers(DType::i32, {starts.begin(), starts.end()});
      std::vector<Tensor*> all = {&q, &k, &v};
      if (documents) all.push_back(&document_starts);
      all.insert(all.end(), {&o, &log_sum_exp});
      const auto views = [&] {
        std::vector<Matrix> matrices;
        for (Tensor* tensor : all) matrices.push_back(tensor->view());
        return matrices;
      };
      on_cpu(graph::AttentionForward{s.batch, s.seq, s.heads, s.kv_heads, s.head_dim, s.window, documents, s.scale},
             views());
      const graph::AttentionBackward op{s.batch, s.seq, s.heads, s.kv_heads, s.head_dim, s.window, documents, s.scale};
      all.insert(all.end(), {&dout, &dq, &dk, &dv});
      testing::GpuMemory memory;
      std::vector<Matrix> on_device;
      for (Tensor* tensor : all) on_device.push_back(memory.upload(*tensor));
      on_cpu(op, views());
      for (const execute::GpuKernels& form : s.forms(dtype)) {
        execute::CudaLibraries libraries({.kernels = form});
        testing::prepare_on_gpu(op, on_device, memory, libraries)->run(nullptr, nullptr);
        for (std::size_t i = all.size() - 3; i < all.size(); ++i) {
          double difference = 0, norm = 0;
          const auto a = memory.download(on_device[i]).values(), b = all[i]->values();
          for (std::size_t e = 0; e < a.size(); ++e) {
            difference += (a[e] - b[e]) * (a[e] - b[e]);
            norm += b[e] * b[e];
          }
          const std::size_t which = i + 3 - all.size();
          // In a window of one token dq and dk are zero but for the rounding of `out`, of which each device has its
          // own.
          if (s.window == 1 && which < 2) norm = static_cast<double>(a.size());
          EXPECT_LT(std::sqrt(difference / norm), dtype == DType::bf16 ? 1.5e-2 : 1e-5)
              << "d"
              << "qkv"[which] << (form.masked_mma ? " on tensor cores" : "");
        }
      }
    }
  }
}

TEST_F(CudaTasks, Decode) {
  for (const DType dtype : kFloats) {
    constexpr std::int64_t batch = 2, heads = 4, kv_heads = 2, dim = 64, context = 96, seq = 40;
    check(graph::CacheStore{batch, seq, kv_heads * dim, context}, dtype, kExact);
    for (const std::int64_t window : {0, 20, 60}) {
      check(graph::AttentionDecode{batch, heads, kv_heads, dim, context, window}, dtype,
            {1e-3, dtype == DType::bf16 ? 1e-2 : 1e-4}, {{"position", integer(50)}});
    }
    check(graph::AttentionDecode{batch, heads, kv_heads, dim, context, 0, 0.3F}, dtype,
          {1e-3, dtype == DType::bf16 ? 1e-2 : 1e-4}, {{"position", integer(50)}});
  }
}

TEST_F(CudaTasks, Activations) {
  for (const DType dtype : kFloats) {
    for (const std::int64_t n : {1, 1000, 8192, 100003}) {
      check(graph::GeluForward{n}, dtype, {1e-5, 1e-6});
      check(graph::GeluBackward{n}, dtype, {1e-5, 1e-5});
      check(graph::Add{n}, dtype, kClose);
      check(graph::Zero{n}, dtype, kExact);
      check(graph::Scale{n, 0.75F}, dtype, kExact);
      check(graph::AddConstant{n, 1.0F}, dtype, kExact);
      for (const DType to : kFloats) check(graph::Cast{n}, dtype, kExact, {{"out", of_dtype(to)}});
    }
    for (const auto& [rows, cols] : {std::array<std::int64_t, 2>{40, 256}, {11, 13}}) {
      check(graph::SwiGluForward{rows, cols}, dtype, {1e-5, 1e-6});
      check(graph::SwiGluBackward{rows, cols}, dtype, {1e-5, 1e-5});
      check(graph::GeGluForward{rows, cols}, dtype, {1e-5, 1e-6});
      check(graph::GeGluBackward{rows, cols}, dtype, {1e-5, 1e-5});
    }
  }
}

TEST_F(CudaTasks, Dropout) {
  for (const DType dtype : kFloats) {
    for (const std::int64_t parts : {1, 3}) {
      for (const bool residual : {false, true}) {
        check(graph::Dropout{50, 72, 7, 0.3F, 11, residual, parts}, dtype, kClose,
              {{"random", {.fill = testing::Fill::integers, .integers = {1234567890123, 5, 17}}},
               {"coordinate", integer(2)}});
        // Row 17 + 7 stands within a part of 10 rows, and the matrix ends within its sixth.
        check(graph::Dropout{50, 72, 7, 0.3F, 11, residual, parts, 10, 40}, dtype, kClose,
              {{"random", {.fill = testing::Fill::integers, .integers = {1234567890123, 5, 17}}},
               {"coordinate", integer(2)}});
      }
    }
  }
}

TEST_F(CudaTasks, CrossEntropy) {
  for (const DType dtype : kFloats) {
    for (const auto& [rows, vocab] : {std::array<std::int64_t, 2>{33, 257}, {9, 50257}, {64, 64}}) {
      for (const bool gradient : {true, false}) {
        check(graph::CrossEntropy{rows, vocab, vocab == 50257 ? 50304 : vocab, gradient}, dtype, {2e-5, 1e-5},
              {{"targets", tokens(vocab, true)}, {"grad_scale", positive()}});
      }
    }
    check(graph::VocabStatistics{21, 96, 90}, dtype, {2e-5, 1e-5},
          {{"targets", tokens(90)}, {"coordinate", integer(0)}});
    for (const bool accumulate : {false, true}) {  // the second one of a replica
      check(graph::LossSum{1000, accumulate, true}, dtype, kClose,
            {{"targets", tokens(10, true)}, {"replica", integer(accumulate ? 1 : 0)}});
    }
  }
}

TEST_F(CudaTasks, Optimizer) {
  for (const std::int64_t n : {1, 5, 768, 1000003}) {
    check(graph::SumSquares{n}, DType::f32, kClose);
    for (const DType dtype : kFloats) {
      check(graph::AdamW{n, 0.9F, 0.95F, 1e-8F, 0.1F, dtype == DType::bf16}, dtype, {1e-5, 1e-6},
            {{"grad", small()},
             {"m", small()},
             {"v", positive()},
             {"scalars", positive()},
             {"norm_and_factor", positive()}});
      check(graph::AdamW{n, 0.9F, 0.95F, 1e-8F, 0.1F, dtype == DType::bf16, true}, dtype, {1e-5, 1e-6},
            {{"grad", small()}, {"m", small()}, {"v", positive()}, {"scalars", positive()}});
    }
  }
  check(graph::SumSquares{100, true}, DType::f32, kExact, {{"replica", integer(2)}});
  for (const float max_norm : {0.0F, 1.0F}) {
    check(graph::ClipFactor{300, max_norm}, DType::f32, kClose, {{"partials", positive()}});
  }
}

TEST_F(CudaTasks, SelectRow) {
  for (const DType dtype : kFloats) {
    check(graph::SelectRow{10, 33}, dtype, kExact, {{"index", integer(23)}, {"out", of_dtype(DType::f32)}});
  }
}

}  // namespace
}  // namespace weft
