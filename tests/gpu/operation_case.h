// One operation on the GPU and on the CPU: random inputs, poisoned outputs, and the tolerance between both results.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/execute/cpu/cpu_kernels.h"
#include "runtime/execute/cuda/cuda_tasks.h"
#include "tests/gpu/gpu_test.h"
#include "tests/kernels/reference.h"

namespace weft::testing {

// How an argument begins.
enum class Fill : std::uint8_t { random, positive, small, tokens, targets, integers, poison };

/// What the schema doesn't tell of an argument: how it begins, if random numbers don't do; the elements after each row;
/// the dtype or the number of rows, where the schema allows several.
struct Special {
  Fill fill = Fill::random;
  std::int64_t padding = 0;
  std::vector<std::int64_t> integers = {};
  std::int64_t below = 0;  // upper bound of tokens and targets
  std::optional<DType> dtype = {};
  std::int64_t rows = 0;
};

inline Special positive() {
  return {.fill = Fill::positive};
}
inline Special small() {
  return {.fill = Fill::small};
}
inline Special padded(std::int64_t padding) {
  return {.padding = padding};
}
inline Special integer(std::int64_t value) {
  return {.fill = Fill::integers, .integers = {value}};
}
inline Special tokens(std::int64_t below, bool targets = false) {
  return {.fill = targets ? Fill::targets : Fill::tokens, .below = below};
}
inline Special integers(std::vector<std::int64_t> values) {
  return {.fill = Fill::integers, .integers = std::move(values)};
}
inline Special of_dtype(DType dtype) {
  return {.dtype = dtype};
}

// An argument, and whether the kernel writes it.
struct Argument {
  DType dtype;
  std::int64_t rows, cols;
  bool written;
  Special special;
};

inline cpu::testing::Tensor make(const Argument& a, std::mt19937& random) {
  const Fill fill = a.special.fill;
  if (fill == Fill::integers) return cpu::testing::Tensor::integers(a.dtype, a.special.integers);
  if (fill == Fill::tokens || fill == Fill::targets) {
    std::vector<std::int64_t> values;
    for (std::int64_t i = 0; i < a.rows * a.cols; ++i) {
      // Few distinct tokens, so that several rows share a token.
      const auto token = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(a.special.below));
      values.push_back(fill == Fill::targets && i % 5 == 3 ? -1 : random() % 3 == 0 ? 1 % a.special.below : token);
    }
    return cpu::testing::Tensor::integers(a.dtype, values);
  }
  cpu::testing::Tensor tensor(a.dtype, a.rows, a.cols, a.special.padding);
  if (fill == Fill::poison) return tensor;
  std::normal_distribution<double> normal(0.0, fill == Fill::small ? 0.05 : 1.0);
  cpu::testing::Values values(static_cast<std::size_t>(a.rows * a.cols));
  for (double& value : values) value = fill == Fill::positive ? std::abs(normal(random)) + 0.1 : normal(random);
  tensor.assign(values);
  return tensor;
}

/// A task in poisoned scratch.
inline std::unique_ptr<execute::CudaTask> prepare_on_gpu(const graph::Operation& operation,
                                                         const std::vector<cpu::Matrix>& arguments, GpuMemory& memory,
                                                         execute::CudaLibraries& libraries) {
  const std::int64_t bytes = execute::cuda_scratch_bytes(operation, arguments, libraries);
  std::byte* const scratch = memory.poisoned(std::max<std::int64_t>(bytes, 256));
  return execute::prepare_cuda_task(operation, arguments, scratch, libraries);
}

/// `tolerance` is for fp32 results; bf16 results may also differ by two units in the last place.
inline void check_case(const std::string& name, const graph::Operation& operation,
                       const std::vector<Argument>& arguments, const cpu::testing::Tolerance& tolerance,
                       const execute::GpuKernels& kernels = {}) {
  SCOPED_TRACE(name);
  std::mt19937 random(std::random_device{}());
  const auto seed = random();
  SCOPED_TRACE("seed " + std::to_string(seed));
  random.seed(seed);
  std::vector<cpu::testing::Tensor> host;
  for (const Argument& a : arguments) host.push_back(make(a, random));
  std::vector<cpu::testing::Tensor> expected = host;

  std::vector<cpu::Matrix> on_host;
  for (cpu::testing::Tensor& tensor : expected) on_host.push_back(tensor.view());
  const execute::PreparedTask reference(operation, on_host);
  cpu::Workers workers(2);
  workers.reserve(reference.scratch());
  reference.run(workers);

  GpuMemory memory;
  execute::CudaLibraries libraries({.kernels = kernels});
  std::vector<cpu::Matrix> on_device;
  for (cpu::testing::Tensor& tensor : host) on_device.push_back(memory.upload(tensor));
  const auto task = prepare_on_gpu(operation, on_device, memory, libraries);
  auto* const fault = reinterpret_cast<cuda::Fault*>(memory.zeroed(256));
  // Runs twice from the same inputs: the bits must be equal.
  std::vector<cpu::testing::Tensor> first;
  for (int repeat = 0; repeat < 2; ++repeat) {
    for (std::size_t i = 0; i < host.size(); ++i) memory.write(on_device[i], host[i]);
    task->run(nullptr, fault);
    for (std::size_t i = 0; i < host.size(); ++i) {
      cpu::testing::Tensor found = memory.download(on_device[i]);
      if (repeat == 0) {
        first.push_back(std::move(found));
      } else {
        EXPECT_EQ(first[i].bytes(), found.bytes()) << "argument " << i << " differs when run again";
      }
    }
  }
  for (std::size_t i = 0; i < host.size(); ++i) {
    const std::string what = "argument " + std::to_string(i);
    if (!arguments[i].written) {
      EXPECT_EQ(first[i].bytes(), host[i].bytes()) << what << " is read only";
      continue;
    }
    EXPECT_TRUE(first[i].padding_untouched()) << what;
    if (host[i].dtype() == DType::i32) {
      EXPECT_EQ(first[i].bytes(), expected[i].bytes()) << what;
      continue;
    }
    cpu::testing::Values found = first[i].values(), wanted = expected[i].values();
    for (std::size_t e = 0; e < wanted.size(); ++e) {  // what the CPU leaves poisoned stays so
      if (std::isnan(wanted[e]) && std::isnan(found[e])) wanted[e] = found[e] = 0;
    }
    const double relative = tolerance.relative + (host[i].dtype() == DType::bf16 ? 0x1p-7 : 0);
    // With bf16 inputs, sums of many rounded terms differ by the precision of bf16, relative to the largest.
    cpu::testing::expect_close(found, wanted, {relative, tolerance.absolute}, what);
  }
}

inline constexpr DType kFloats[] = {DType::f32, DType::bf16};

template <class Op>
struct NamedSpecial {
  graph::ArgumentName<Op> argument;
  Special special;
};

/// An operation whose arguments are as its schema has them, floats of `dtype`.
template <class Op>
void check(const Op& operation, DType dtype, const cpu::testing::Tolerance& tolerance,
           std::initializer_list<NamedSpecial<Op>> specials = {}, const execute::GpuKernels& kernels = {}) {
  std::array<Special, graph::argument_count<Op>> special;
  for (const NamedSpecial<Op>& named : specials) special[named.argument.index()] = named.special;
  std::string text = std::string(Op::kind) + " " + std::string(to_string(dtype));
  std::vector<Argument> arguments;
  graph::for_each_field(operation, [&](std::string_view name, const auto& value) {
    if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(value)>>) {
      text += " " + std::string(name) + "=" + std::to_string(value);
    }
  });
  const auto rows = operation.arguments();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const graph::ArgumentSchema& row = rows[i];
    if (!row.present) continue;
    const bool one_dtype = row.elements.rule == graph::ArgumentElements::Rule::one_dtype;
    if (row.mode == graph::AccessMode::write) special[i].fill = Fill::poison;
    arguments.push_back({special[i].dtype.value_or(one_dtype ? row.elements.dtype : dtype),
                         special[i].rows > 0 ? special[i].rows : row.shape.rows, row.shape.cols,
                         row.mode != graph::AccessMode::read, special[i]});
  }
  check_case(text, operation, arguments, tolerance, kernels);
}

}  // namespace weft::testing
