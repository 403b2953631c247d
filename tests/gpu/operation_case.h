// One operation on the GPU and on the CPU: random inputs, poisoned outputs, and the tolerance between both results.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "runtime/execute/cpu/cpu_kernels.h"
#include "runtime/execute/cuda/cuda_tasks.h"
#include "tests/gpu/gpu_test.h"
#include "tests/kernels/reference.h"

namespace weft::testing {

// The beginning of an argument, and whether the kernel writes it.
struct Argument {
  enum class Fill : std::uint8_t { random, positive, small, tokens, targets, integers, poison } fill;
  DType dtype;
  std::int64_t rows, cols;
  bool written = false;
  std::int64_t padding = 0;
  std::vector<std::int64_t> integers = {};
  std::int64_t below = 0;  // upper bound of tokens and targets
};

using Fill = Argument::Fill;

struct OperationCase {
  std::string name;
  graph::Operation operation;
  std::vector<Argument> arguments;
  double relative, absolute;  // for fp32 results; bf16 results may also differ by two units in the last place
};

inline cpu::testing::Tensor make(const Argument& a, std::mt19937& random) {
  if (a.fill == Fill::integers) return cpu::testing::Tensor::integers(a.dtype, a.integers);
  if (a.fill == Fill::tokens || a.fill == Fill::targets) {
    std::vector<std::int64_t> values;
    for (std::int64_t i = 0; i < a.rows * a.cols; ++i) {
      // Few distinct tokens, so that several rows share a token.
      const auto token = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(a.below));
      values.push_back(a.fill == Fill::targets && i % 5 == 3 ? -1 : random() % 3 == 0 ? 1 % a.below : token);
    }
    return cpu::testing::Tensor::integers(a.dtype, values);
  }
  cpu::testing::Tensor tensor(a.dtype, a.rows, a.cols, a.padding);
  if (a.fill == Fill::poison) return tensor;
  std::normal_distribution<double> normal(0.0, a.fill == Fill::small ? 0.05 : 1.0);
  cpu::testing::Values values(static_cast<std::size_t>(a.rows * a.cols));
  for (double& value : values) value = a.fill == Fill::positive ? std::abs(normal(random)) + 0.1 : normal(random);
  tensor.assign(values);
  return tensor;
}

inline void check(const OperationCase& c) {
  SCOPED_TRACE(c.name);
  std::mt19937 random(std::random_device{}());
  const auto seed = random();
  SCOPED_TRACE("seed " + std::to_string(seed));
  random.seed(seed);
  std::vector<cpu::testing::Tensor> host;
  for (const Argument& a : c.arguments) host.push_back(make(a, random));
  std::vector<cpu::testing::Tensor> expected = host;

  std::vector<cpu::Matrix> on_host;
  for (cpu::testing::Tensor& tensor : expected) on_host.push_back(tensor.view());
  const execute::PreparedTask reference(c.operation, on_host);
  cpu::Workers workers(2);
  workers.reserve(reference.scratch());
  reference.run(workers);

  GpuMemory memory;
  execute::CudaLibraries libraries;
  std::vector<cpu::Matrix> on_device;
  std::vector<std::byte*> buffers;
  for (cpu::testing::Tensor& tensor : host) {
    buffers.push_back(memory.upload(tensor.bytes()));
    cpu::Matrix matrix = tensor.view();
    matrix.data = buffers.back();
    on_device.push_back(matrix);
  }
  const auto task = execute::prepare_cuda_task(c.operation, on_device, libraries);
  task->bind(memory.poisoned(std::max<std::int64_t>(task->scratch_bytes(), 256)));
  auto* const fault = reinterpret_cast<cuda::Fault*>(memory.zeroed(256));
  // Runs twice from the same inputs: the bits must be equal.
  std::vector<std::vector<std::byte>> first;
  for (int repeat = 0; repeat < 2; ++repeat) {
    for (std::size_t i = 0; i < host.size(); ++i) memory.write(buffers[i], host[i].bytes());
    task->run(nullptr, fault);
    memory.synchronize();
    for (std::size_t i = 0; i < host.size(); ++i) {
      std::vector<std::byte> bytes = memory.download(buffers[i], static_cast<std::int64_t>(host[i].bytes().size()));
      if (repeat == 0) {
        first.push_back(std::move(bytes));
      } else {
        EXPECT_EQ(first[i], bytes) << "argument " << i << " differs when run again";
      }
    }
  }
  for (std::size_t i = 0; i < host.size(); ++i) {
    const std::string what = "argument " + std::to_string(i);
    if (!c.arguments[i].written) {
      EXPECT_EQ(first[i], host[i].bytes()) << what << " is read only";
      continue;
    }
    std::copy(first[i].begin(), first[i].end(), host[i].bytes().begin());
    EXPECT_TRUE(host[i].padding_untouched()) << what;
    const double relative = c.relative + (host[i].dtype() == DType::bf16 ? 0x1p-7 : 0);
    // With bf16 inputs, sums of many rounded terms differ by the precision of bf16, relative to the largest.
    cpu::testing::expect_close(host[i].values(), expected[i].values(), {relative, c.absolute}, what);
  }
}

inline constexpr DType kFloats[] = {DType::f32, DType::bf16};

inline std::string named(const std::string& name, DType dtype, std::int64_t a, std::int64_t b) {
  return name + " " + std::string(to_string(dtype)) + " " + std::to_string(a) + "x" + std::to_string(b);
}

inline Argument in(DType dtype, std::int64_t rows, std::int64_t cols, Fill fill = Fill::random,
                   std::int64_t padding = 0) {
  return {fill, dtype, rows, cols, false, padding};
}
inline Argument out(DType dtype, std::int64_t rows, std::int64_t cols, bool accumulate = false,
                    std::int64_t padding = 0) {
  return {accumulate ? Fill::random : Fill::poison, dtype, rows, cols, true, padding};
}
inline Argument in_out(DType dtype, std::int64_t rows, std::int64_t cols, Fill fill = Fill::random) {
  return {fill, dtype, rows, cols, true};
}
inline Argument integer(std::int64_t value) {
  return {Fill::integers, DType::i64, 1, 1, false, 0, {value}};
}
inline Argument tokens(std::int64_t count, std::int64_t below, bool targets = false) {
  return {targets ? Fill::targets : Fill::tokens, DType::i32, 1, count, false, 0, {}, below};
}

}  // namespace weft::testing
