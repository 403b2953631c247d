// Every operation on the GPU compared with the CPU's kernel: random inputs, poisoned outputs, several shapes and both
// float types.
#include "runtime/execute/cuda/cuda_tasks.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/gpu/operation_case.h"
#include "tests/kernels/document_starts.h"

namespace weft {
namespace {

using cpu::Matrix;
using cpu::testing::Tensor;
using testing::check;
using testing::Fill;
using testing::in;
using testing::in_out;
using testing::integer;
using testing::kFloats;
using testing::named;
using testing::out;
using testing::tokens;

class CudaTasks : public testing::GpuTest {};

TEST_F(CudaTasks, Gemm) {
  for (const DType dtype : kFloats) {
    for (const auto& [m, n, k] :
         {std::array<std::int64_t, 3>{64, 96, 128}, {33, 65, 17}, {1, 512, 64}, {256, 8, 40}, {128, 128, 8192}}) {
      for (int bits = 0; bits < 16; ++bits) {
        const graph::Gemm op{m, n, k, (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0};
        const bool to_f32 = op.accumulate || dtype == DType::f32;
        if (op.has_bias && op.accumulate) continue;
        testing::OperationCase c{
            named("gemm", dtype, m, n) + "x" + std::to_string(k) + " flags " + std::to_string(bits),
            op,
            {op.trans_a ? in(dtype, k, m) : in(dtype, m, k), op.trans_b ? in(dtype, n, k) : in(dtype, k, n),
             out(to_f32 ? DType::f32 : dtype, m, n, op.accumulate)},
            1e-4,
            1e-4 * std::max(1.0, static_cast<double>(k) / 256)};
        if (op.has_bias) c.arguments.push_back(in(dtype, 1, n));
        check(c);
      }
    }
  }
}

TEST_F(CudaTasks, GemmOnWindows) {
  for (const DType dtype : kFloats) {
    check({named("gemm", dtype, 64, 32),
           graph::Gemm{64, 32, 48, false, true, false, true},
           {in(dtype, 64, 48, Fill::random, 16), in(dtype, 32, 48), out(dtype, 64, 32, false, 64), in(dtype, 1, 32)},
           1e-4,
           1e-4});
  }
}

// Shapes that the library's epilogues support, and shapes that need a product and a separate kernel: row lengths that 8
// doesn't divide, other strides, a bias before the gradient. Small numbers in few columns, where GELU isn't linear.
TEST_F(CudaTasks, GemmWithGelu) {
  for (const DType dtype : kFloats) {
    for (const auto& [m, n, k] :
         {std::array<std::int64_t, 3>{64, 96, 128}, {256, 512, 40}, {33, 65, 17}, {1, 512, 64}}) {
      const double tolerance = 1e-4 + (dtype == DType::bf16 ? 0x1p-7 : 0);
      for (int bits = 0; bits < 8; ++bits) {
        const bool forward = (bits & 1) != 0, bias = (bits & 2) != 0;
        const std::int64_t padding = (bits & 4) != 0 ? 64 : 0;
        testing::OperationCase c{
            named("gemm", dtype, m, n) + "x" + std::to_string(k) + " gelu flags " + std::to_string(bits),
            graph::Gemm{m, n, k, false, forward, false, bias, false,
                        forward ? Epilogue::gelu : Epilogue::gelu_gradient},
            {in(dtype, m, k, Fill::small), forward ? in(dtype, n, k) : in(dtype, k, n), out(dtype, m, n)},
            tolerance,
            tolerance};
        if (bias) c.arguments.push_back(in(dtype, 1, n));
        c.arguments.push_back(forward ? out(dtype, m, n, false, padding) : in(dtype, m, n, Fill::random, padding));
        check(c);
      }
    }
  }
}

TEST_F(CudaTasks, BiasGradient) {
  for (const DType dtype : kFloats) {
    for (const auto& [rows, cols] : {std::array<std::int64_t, 2>{1000, 768}, {7, 3}, {513, 2304}, {4096, 50}}) {
      for (const bool accumulate : {false, true}) {
        check({named("bias", dtype, rows, cols),
               graph::BiasGradient{rows, cols, accumulate},
               {in(dtype, rows, cols), out(DType::f32, 1, cols, accumulate)},
               1e-4,
               1e-3});
      }
    }
  }
}

constexpr std::array<std::int64_t, 2> kNormShapes[] = {{70, 768},  {5, 1},     {33, 129},  {300, 64},  {9, 4096},
                                                       {17, 1600}, {3, 10000}, {40, 1280}, {20, 1536}, {5000, 768}};

TEST_F(CudaTasks, LayerNorm) {
  for (const DType dtype : kFloats) {
    for (const auto& [rows, cols] : kNormShapes) {
      if (cols == 1) continue;  // everything is 0/0 except for eps
      check({named("ln", dtype, rows, cols),
             graph::LayerNormForward{rows, cols, 1e-5F},
             {in(dtype, rows, cols), in(dtype, 1, cols), in(dtype, 1, cols), out(dtype, rows, cols),
              out(DType::f32, 1, rows), out(DType::f32, 1, rows)},
             2e-5,
             2e-5});
      for (const bool residual : {false, true}) {
        testing::OperationCase c{
            named("ln.bwd", dtype, rows, cols),
            graph::LayerNormBackward{rows, cols, residual, residual},
            {in(dtype, rows, cols), in(dtype, 1, cols), in(DType::f32, 1, rows),
             in(DType::f32, 1, rows, Fill::positive), in(dtype, rows, cols), out(dtype, rows, cols),
             out(DType::f32, 1, cols, residual), out(DType::f32, 1, cols, residual)},
            1e-4,
            1e-3};
        if (residual) c.arguments.push_back(in(dtype, rows, cols));
        check(c);
      }
    }
  }
}

TEST_F(CudaTasks, RmsNorm) {
  for (const DType dtype : kFloats) {
    for (const auto& [rows, cols] : kNormShapes) {
      check({named("rms", dtype, rows, cols),
             graph::RmsNormForward{rows, cols, 1e-5F},
             {in(dtype, rows, cols), in(dtype, 1, cols), out(dtype, rows, cols), out(DType::f32, 1, rows)},
             2e-5,
             2e-5});
      for (const bool residual : {false, true}) {
        testing::OperationCase c{named("rms.bwd", dtype, rows, cols),
                                 graph::RmsNormBackward{rows, cols, residual, residual},
                                 {in(dtype, rows, cols), in(dtype, 1, cols), in(DType::f32, 1, rows, Fill::positive),
                                  in(dtype, rows, cols), out(dtype, rows, cols), out(DType::f32, 1, cols, residual)},
                                 1e-4,
                                 1e-3};
        if (residual) c.arguments.push_back(in(dtype, rows, cols));
        check(c);
      }
    }
  }
}

TEST_F(CudaTasks, HeadNorm) {
  struct Shape {
    std::int64_t rows, heads, head_dim;
  };
  for (const DType dtype : kFloats) {
    for (const Shape s : {Shape{70, 3, 64}, Shape{5, 1, 2}, Shape{33, 2, 130}, Shape{600, 4, 22}}) {
      const std::int64_t cols = s.heads * s.head_dim;
      check({named("head norm", dtype, s.rows, cols),
             graph::HeadNormForward{s.rows, s.heads, s.head_dim, 1e-5F},
             {in(dtype, s.rows, cols, Fill::random, 16), in(dtype, 1, s.head_dim), out(dtype, s.rows, cols),
              out(DType::f32, 1, s.rows * s.heads)},
             2e-5,
             2e-5});
      for (const bool accumulate : {false, true}) {
        check({named("head norm.bwd", dtype, s.rows, cols),
               graph::HeadNormBackward{s.rows, s.heads, s.head_dim, accumulate},
               {in(dtype, s.rows, cols), in(dtype, 1, s.head_dim), in(DType::f32, 1, s.rows * s.heads, Fill::positive),
                in(dtype, s.rows, cols), out(dtype, s.rows, cols), out(DType::f32, 1, s.head_dim, accumulate)},
               1e-4,
               1e-3});
      }
    }
  }
}

TEST_F(CudaTasks, NormsOfParts) {
  constexpr std::int64_t rows = 37, cols = 96, parts = 3;
  for (const DType dtype : kFloats) {
    for (const bool centered : {false, true}) {
      const std::int64_t per_row = centered ? 2 : 1;
      check({named("norm.statistics", dtype, rows, cols),
             graph::NormStatistics{rows, cols, centered},
             {in(dtype, rows, cols), out(DType::f32, 1, rows * per_row)},
             1e-5,
             1e-5});
      testing::OperationCase forward{named("norm.parts", dtype, rows, cols),
                                     graph::NormForwardOfParts{rows, cols, parts, 1e-5F, centered},
                                     {in(dtype, rows, cols), in(dtype, 1, cols)},
                                     1e-4,
                                     1e-4};
      if (centered) forward.arguments.push_back(in(dtype, 1, cols));
      forward.arguments.push_back(in(DType::f32, 1, parts * rows * per_row, Fill::positive));
      forward.arguments.push_back(out(dtype, rows, cols));
      if (centered) forward.arguments.push_back(out(DType::f32, 1, rows));
      forward.arguments.push_back(out(DType::f32, 1, rows));
      check(forward);
      const auto saved = [&] {
        std::vector<testing::Argument> all = {in(dtype, rows, cols), in(dtype, 1, cols)};
        if (centered) all.push_back(in(DType::f32, 1, rows));
        all.push_back(in(DType::f32, 1, rows, Fill::positive));
        all.push_back(in(dtype, rows, cols));
        return all;
      };
      testing::OperationCase sums{named("norm.sums", dtype, rows, cols), graph::NormBackwardSums{rows, cols, centered},
                                  saved(), 1e-4, 1e-3};
      sums.arguments.push_back(out(DType::f32, 1, rows * per_row));
      check(sums);
      for (const bool residual : {false, true}) {
        testing::OperationCase backward{named("norm.backward", dtype, rows, cols),
                                        graph::NormBackwardOfParts{rows, cols, parts, centered, residual, residual},
                                        saved(), 1e-4, 1e-3};
        backward.arguments.push_back(in(DType::f32, 1, rows * per_row));
        backward.arguments.push_back(out(dtype, rows, cols));
        backward.arguments.push_back(out(DType::f32, 1, cols, residual));
        if (centered) backward.arguments.push_back(out(DType::f32, 1, cols, residual));
        if (residual) backward.arguments.push_back(in(dtype, rows, cols));
        check(backward);
      }
    }
  }
}

TEST_F(CudaTasks, Columns) {
  for (const DType dtype : kFloats) {
    for (const std::int64_t coordinate : {0, 3}) {
      check({"add_bias",
             graph::AddBias{19, 40},
             {in_out(dtype, 19, 40), in(dtype, 1, 40), integer(coordinate)},
             1e-6,
             1e-6});
      check({"take_columns",
             graph::TakeColumns{19, 40, 2, 2},
             {in(dtype, 19, 80), integer(coordinate), out(dtype, 19, 40)},
             0,
             0});
      check({"put_columns",
             graph::PutColumns{19, 40, 2, 2},
             {in(dtype, 19, 40), integer(coordinate), out(dtype, 19, 80)},
             0,
             0});
    }
  }
}

TEST_F(CudaTasks, Embedding) {
  for (const DType dtype : kFloats) {
    for (const auto& [rows, cols] : {std::array<std::int64_t, 2>{64, 96}, {300, 33}, {2048, 64}}) {
      constexpr std::int64_t vocab = 100, context = 64;
      check({named("embedding", dtype, rows, cols),
             graph::EmbeddingForward{rows, cols, vocab, 32},
             {tokens(rows, vocab), in(dtype, vocab, cols), out(dtype, rows, cols)},
             0,
             0});
      check(
          {named("embedding with positions", dtype, rows, cols),
           graph::EmbeddingForward{rows, cols, vocab, 32, true, true},
           {tokens(rows, vocab), in(dtype, vocab, cols), in(dtype, context, cols), out(dtype, rows, cols), integer(5)},
           1e-6,
           1e-6});
      check({named("sharded embedding", dtype, rows, cols),
             graph::EmbeddingForward{rows, cols, vocab / 2, 32, false, false, true},
             {tokens(rows, vocab), in(dtype, vocab / 2, cols), out(dtype, rows, cols), integer(1)},
             0,
             0});
      for (const bool accumulate : {false, true}) {
        check({named("embedding.bwd", dtype, rows, cols),
               graph::EmbeddingBackward{rows, cols, vocab, accumulate},
               {tokens(rows, vocab), in(dtype, rows, cols), out(DType::f32, vocab, cols, accumulate)},
               1e-4,
               1e-3});
        check({named("sharded embedding.bwd", dtype, rows, cols),
               graph::EmbeddingBackward{rows, cols, vocab / 2, accumulate, true},
               {tokens(rows, vocab), in(dtype, rows, cols), out(DType::f32, vocab / 2, cols, accumulate), integer(1)},
               1e-4,
               1e-3});
        const std::int64_t seq = rows % 32 == 0 ? 32 : rows / 10;
        check({named("position.bwd", dtype, rows, cols),
               graph::PositionBackward{rows, cols, seq, context, accumulate},
               {in(dtype, rows, cols), out(DType::f32, context, cols, accumulate)},
               1e-5,
               1e-4});
      }
    }
  }
}

TEST_F(CudaTasks, Rope) {
  for (const DType dtype : kFloats) {
    for (const bool inverse : {false, true}) {
      graph::Rope op{128, 3, 64, 32};
      op.inverse = inverse;
      check({named("rope", dtype, 128, 192), op, {in_out(dtype, 128, 192)}, 2e-5, 2e-5});
      op.has_offset = true;
      op.scaling_factor = 8;
      check({named("rope at", dtype, 128, 192), op, {in_out(dtype, 128, 192), integer(1000)}, 2e-4, 2e-4});
      op.scaling = graph::RopeKind::yarn;
      op.high_freq_factor = 32;
      op.attention_factor = 1.25F;
      check({named("yarn at", dtype, 128, 192), op, {in_out(dtype, 128, 192), integer(1000)}, 3e-4, 3e-4});
    }
  }
}

struct AttentionCase {
  std::int64_t batch, seq, heads, kv_heads, head_dim, window = 0;
  std::vector<std::int64_t> documents = {};  // their lengths; empty: one a sequence

  std::vector<std::int32_t> starts() const { return cpu::testing::starts_of_documents(batch, seq, documents); }
};

const std::vector<AttentionCase> kAttentionCases = {{2, 64, 3, 3, 64},
                                                    {1, 100, 4, 2, 64},
                                                    {2, 33, 2, 1, 128},
                                                    {1, 257, 2, 2, 32},
                                                    {3, 16, 2, 2, 8},
                                                    {2, 128, 12, 12, 64},
                                                    {1, 330, 2, 1, 64},
                                                    {1, 330, 1, 1, 128},
                                                    {1, 330, 2, 1, 64, 70},
                                                    {2, 90, 2, 2, 16, 1},
                                                    {1, 200, 1, 1, 130, 100},
                                                    {2, 150, 2, 1, 64, 0, {100, 3, 1, 90}},
                                                    {1, 140, 1, 1, 16, 30, {64, 20}}};

TEST_F(CudaTasks, Attention) {
  for (const DType dtype : kFloats) {
    for (const AttentionCase& s : kAttentionCases) {
      const std::int64_t rows = s.batch * s.seq, q = s.heads * s.head_dim, kv = s.kv_heads * s.head_dim;
      const std::string name = named("attention", dtype, s.seq, s.head_dim) + " heads " + std::to_string(s.heads) +
                               "/" + std::to_string(s.kv_heads);
      const double absolute = dtype == DType::bf16 ? 2e-2 : 1e-4;
      std::vector<testing::Argument> arguments = {in(dtype, rows, q, Fill::random, 16), in(dtype, rows, kv),
                                                  in(dtype, rows, kv)};
      if (const auto starts = s.starts(); !starts.empty()) {
        arguments.push_back({Fill::integers, DType::i32, 1, rows, false, 0, {starts.begin(), starts.end()}});
      }
      arguments.push_back(out(dtype, rows, q));
      arguments.push_back(out(DType::f32, 1, s.batch * s.heads * s.seq));
      const bool documents = !s.documents.empty();
      check({name, graph::AttentionForward{s.batch, s.seq, s.heads, s.kv_heads, s.head_dim, s.window, documents},
             arguments, 1e-3, absolute});
    }
  }
}

// The backward pass needs a matching out and log-sum-exp: the CPU's forward pass gives them.
TEST_F(CudaTasks, AttentionBackward) {
  for (const DType dtype : kFloats) {
    for (const AttentionCase& s : kAttentionCases) {
      SCOPED_TRACE(named("attention.bwd", dtype, s.seq, s.head_dim) + " heads " + std::to_string(s.heads) + "/" +
                   std::to_string(s.kv_heads));
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
      on_cpu(graph::AttentionForward{s.batch, s.seq, s.heads, s.kv_heads, s.head_dim, s.window, documents}, views());
      const graph::AttentionBackward op{s.batch, s.seq, s.heads, s.kv_heads, s.head_dim, s.window, documents};
      all.insert(all.end(), {&dout, &dq, &dk, &dv});
      testing::GpuMemory memory;
      execute::CudaLibraries libraries;
      std::vector<Matrix> on_device;
      for (Tensor* tensor : all) {
        on_device.push_back(tensor->view());
        on_device.back().data = memory.upload(tensor->bytes());
      }
      on_cpu(op, views());
      const auto task = execute::prepare_cuda_task(op, on_device, libraries);
      task->bind(memory.poisoned(std::max<std::int64_t>(task->scratch_bytes(), 256)));
      task->run(nullptr, nullptr);
      memory.synchronize();
      for (std::size_t i = all.size() - 3; i < all.size(); ++i) {
        Tensor& expected = *all[i];
        Tensor actual = expected;
        actual.bytes() = memory.download(static_cast<std::byte*>(on_device[i].data),
                                         static_cast<std::int64_t>(expected.bytes().size()));
        double difference = 0, norm = 0;
        const auto a = actual.values(), b = expected.values();
        for (std::size_t e = 0; e < a.size(); ++e) {
          difference += (a[e] - b[e]) * (a[e] - b[e]);
          norm += b[e] * b[e];
        }
        const std::size_t which = i + 3 - all.size();
        // In a window of one token dq and dk are zero but for the rounding of `out`, of which each device has its own.
        if (s.window == 1 && which < 2) norm = static_cast<double>(a.size());
        EXPECT_LT(std::sqrt(difference / norm), dtype == DType::bf16 ? 1.5e-2 : 1e-5) << "d"
                                                                                      << "qkv"[which];
      }
    }
  }
}

TEST_F(CudaTasks, Decode) {
  for (const DType dtype : kFloats) {
    constexpr std::int64_t batch = 2, heads = 4, kv_heads = 2, dim = 64, context = 96, seq = 40;
    check({named("cache_store", dtype, seq, 128),
           graph::CacheStore{batch, seq, kv_heads * dim, context},
           {in(dtype, batch * seq, kv_heads * dim), in_out(dtype, batch * context, kv_heads * dim)},
           0,
           0});
    for (const std::int64_t window : {0, 20, 60}) {
      check({named("decode", dtype, heads, dim),
             graph::AttentionDecode{batch, heads, kv_heads, dim, context, window},
             {in(dtype, batch, heads * dim), in(dtype, batch, kv_heads * dim), in(dtype, batch, kv_heads * dim),
              in_out(dtype, batch * context, kv_heads * dim), in_out(dtype, batch * context, kv_heads * dim),
              integer(50), out(dtype, batch, heads * dim)},
             1e-3,
             dtype == DType::bf16 ? 1e-2 : 1e-4});
    }
  }
}

TEST_F(CudaTasks, Activations) {
  for (const DType dtype : kFloats) {
    for (const std::int64_t n : {1, 1000, 8192, 100003}) {
      check({named("gelu", dtype, 1, n), graph::GeluForward{n}, {in(dtype, 1, n), out(dtype, 1, n)}, 1e-5, 1e-6});
      check({named("gelu.bwd", dtype, 1, n),
             graph::GeluBackward{n},
             {in(dtype, 1, n), in(dtype, 1, n), out(dtype, 1, n)},
             1e-5,
             1e-5});
      check(
          {named("add", dtype, 1, n), graph::Add{n}, {in(dtype, 1, n), in(dtype, 1, n), out(dtype, 1, n)}, 1e-6, 1e-6});
      check({named("zero", dtype, 1, n), graph::Zero{n}, {out(dtype, 1, n)}, 0, 0});
      check({named("scale", dtype, 1, n), graph::Scale{n, 0.75F}, {in(dtype, 1, n), out(dtype, 1, n)}, 0, 0});
      for (const DType to : kFloats) {
        check({named("cast", dtype, 1, n), graph::Cast{n}, {in(dtype, 1, n), out(to, 1, n)}, 0, 0});
      }
    }
    for (const auto& [rows, cols] : {std::array<std::int64_t, 2>{40, 256}, {11, 13}}) {
      check({named("swiglu", dtype, rows, cols),
             graph::SwiGluForward{rows, cols},
             {in(dtype, rows, 2 * cols), out(dtype, rows, cols)},
             1e-5,
             1e-6});
      check({named("swiglu.bwd", dtype, rows, cols),
             graph::SwiGluBackward{rows, cols},
             {in(dtype, rows, 2 * cols), in(dtype, rows, cols), out(dtype, rows, 2 * cols)},
             1e-5,
             1e-5});
    }
  }
}

TEST_F(CudaTasks, Dropout) {
  for (const DType dtype : kFloats) {
    for (const std::int64_t parts : {1, 3}) {
      for (const bool residual : {false, true}) {
        graph::Dropout op{50, 72, 7, 0.3F, 11, residual, parts};
        testing::OperationCase c{named("dropout", dtype, 50, 72),
                                 op,
                                 {in(dtype, 50, 72),
                                  {Fill::integers, DType::i64, 1, 3, false, 0, {1234567890123, 5, 17}},
                                  out(dtype, 50, 72)},
                                 1e-6,
                                 1e-6};
        if (residual) c.arguments.push_back(in(dtype, 50, 72));
        if (parts > 1) c.arguments.push_back(integer(2));
        check(c);
      }
    }
  }
}

TEST_F(CudaTasks, CrossEntropy) {
  for (const DType dtype : kFloats) {
    for (const auto& [rows, vocab] : {std::array<std::int64_t, 2>{33, 257}, {9, 50257}, {64, 64}}) {
      const std::int64_t padded = vocab == 50257 ? 50304 : vocab;
      for (const bool gradient : {true, false}) {
        testing::OperationCase c{named("cross_entropy", dtype, rows, vocab),
                                 graph::CrossEntropy{rows, vocab, padded, gradient},
                                 {in_out(dtype, rows, padded), tokens(rows, vocab, true), out(DType::f32, 1, rows)},
                                 2e-5,
                                 1e-5};
        c.arguments[0].written = gradient;
        if (gradient) c.arguments.push_back(in(DType::f32, 1, 1, Fill::positive));
        check(c);
      }
    }
    check({"vocab_statistics",
           graph::VocabStatistics{21, 96, 90},
           {in(dtype, 21, 96), tokens(21, 90), integer(0), out(DType::f32, 1, 63)},
           2e-5,
           1e-5});
    check({"loss_sum",
           graph::LossSum{1000, false, true},
           {in(DType::f32, 1, 1000), tokens(1000, 10, true), out(DType::f32, 1, 2), integer(0)},
           1e-6,
           1e-6});
    check({"loss_sum of a replica",
           graph::LossSum{1000, true, true},
           {in(DType::f32, 1, 1000), tokens(1000, 10, true), in_out(DType::f32, 1, 2), integer(1)},
           1e-6,
           1e-6});
  }
}

TEST_F(CudaTasks, Optimizer) {
  for (const std::int64_t n : {1, 5, 768, 1000003}) {
    check({named("sum_squares", DType::f32, 1, n),
           graph::SumSquares{n},
           {in(DType::f32, 1, n), out(DType::f32, 1, 1)},
           1e-6,
           1e-6});
    for (const DType dtype : kFloats) {
      const bool master = dtype == DType::bf16;
      testing::OperationCase c{named("adamw", dtype, 1, n),
                               graph::AdamW{n, 0.9F, 0.95F, 1e-8F, 0.1F, master},
                               {in_out(dtype, 1, n), in(DType::f32, 1, n, Fill::small),
                                in_out(DType::f32, 1, n, Fill::small), in_out(DType::f32, 1, n, Fill::positive),
                                in(DType::f32, 1, 4, Fill::positive), in(DType::f32, 1, 2, Fill::positive)},
                               1e-5,
                               1e-6};
      if (master) c.arguments.push_back(in_out(DType::f32, 1, n));
      check(c);
    }
  }
  check({"sum_squares of a replica",
         graph::SumSquares{100, true},
         {in(DType::f32, 1, 100), out(DType::f32, 1, 1), integer(2)},
         0,
         0});
  for (const float max_norm : {0.0F, 1.0F}) {
    check({"clip_factor",
           graph::ClipFactor{300, max_norm},
           {in(DType::f32, 1, 300, Fill::positive), out(DType::f32, 1, 2)},
           1e-6,
           1e-6});
  }
}

TEST_F(CudaTasks, SelectRow) {
  for (const DType dtype : kFloats) {
    check({"select_row", graph::SelectRow{10, 33}, {in(dtype, 10, 33), integer(23), out(DType::f32, 1, 33)}, 0, 0});
  }
}

}  // namespace
}  // namespace weft
