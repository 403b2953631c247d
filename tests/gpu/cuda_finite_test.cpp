// NaNs and infinities in the results of tasks on a GPU: the kernel against the CPU's, and runs that name the task.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>

#include "kernels/cpu/non_finite.h"
#include "kernels/cuda/elementwise/elementwise.h"
#include "tests/gpu/gpu_run.h"
#include "train/step/device_choice.h"

namespace weft {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();

class CudaFinite : public testing::GpuTest {};

/// What the kernel finds in 5 × `cols` ones with some other numbers, of which `rows` rows count.
std::uint64_t found_in(DType dtype, std::int64_t cols, std::int64_t padding, const std::map<std::size_t, float>& other,
                       std::optional<std::int32_t> rows = {}) {
  constexpr std::int64_t kRows = 5;
  cpu::testing::Values values(static_cast<std::size_t>(kRows * cols), 1.0);
  for (const auto& [at, value] : other) values[at] = static_cast<double>(value);
  cpu::testing::Tensor host(dtype, kRows, cols, values, padding);  // NaNs fill what lies between the rows
  testing::GpuMemory memory;
  const cpu::Matrix x = memory.upload(host);
  auto* const first = reinterpret_cast<std::uint64_t*>(memory.poisoned(sizeof(std::uint64_t)));
  cpu::testing::Tensor counted = cpu::testing::Tensor::integers(DType::i32, {rows.value_or(0)});
  const std::int32_t* const limit = rows ? memory.upload(counted).i32() : nullptr;
  cuda::find_non_finite({}, x, limit, first);
  std::uint64_t result = 0;
  cuda::check(cudaDeviceSynchronize(), "a kernel");
  cuda::check(cudaMemcpy(&result, first, sizeof result, cudaMemcpyDeviceToHost), "cudaMemcpy");
  const auto expected = cpu::first_non_finite(host.view());
  if (!rows) {
    EXPECT_EQ(result, expected ? static_cast<std::uint64_t>(*expected) : kNone);
  }
  return result;
}

TEST_F(CudaFinite, TheFirstElementIsFound) {
  constexpr float kMost = 3e38F;  // finite in bf16, too
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const std::int64_t cols : {1, 7, 64, 1000}) {
      for (const std::int64_t padding : {0, 3, 8}) {
        SCOPED_TRACE(std::string(to_string(dtype)) + " " + std::to_string(cols) + " and " + std::to_string(padding));
        const auto last = static_cast<std::size_t>(5 * cols - 1), third = static_cast<std::size_t>(2 * cols);
        EXPECT_EQ(found_in(dtype, cols, padding, {}), kNone);
        EXPECT_EQ(found_in(dtype, cols, padding, {{0, kMost}, {last, -kMost}}), kNone);
        EXPECT_EQ(found_in(dtype, cols, padding, {{last, kNan}}), last);
        EXPECT_EQ(found_in(dtype, cols, padding, {{third, -kInfinity}, {last, kNan}}), third);
        EXPECT_EQ(found_in(dtype, cols, padding, {{third, kInfinity}}, 2), kNone);
        EXPECT_EQ(found_in(dtype, cols, padding, {{third, kInfinity}}, 3), third);
      }
    }
  }
}

/// The reports of a run as `weft train --check-nan true` has them.
std::string report(testing::GridRun run, train::DeviceKind device, bool graphs = false) {
  train::RunConfig config;
  config.device = device;
  config.grid = run.step.grid;
  config.check_nan = true;
  config.cuda_graph = graphs;
  run.check_finite = true;
  run.make_executor = train::executor_of(config);
  const testing::GridOutcome outcome = testing::run_grid(run);
  EXPECT_EQ(outcome.exit_code, outcome.errors.empty() ? 0 : 3);
  return outcome.errors;
}

TEST_F(CudaFinite, TheTaskIsNamedAsOnTheCpu) {
  for (const graph::Grid& grid : {graph::Grid{1, 1, 1, 1}, graph::Grid{1, 2, 1, 1}}) {
    testing::GridRun run = testing::narrow_run(grid);
    // With y the statistics of the vocabulary's parts have −∞ by design.
    for (const train::DeviceKind device : {train::DeviceKind::cpu, train::DeviceKind::cuda}) {
      EXPECT_EQ(report(run, device), "");
    }
    run.change_weights = [](const execute::State& state) { state.get<float>("L0.mlp.up.weight")[3] = kInfinity; };
    const std::string expected = report(run, train::DeviceKind::cpu);
    EXPECT_NE(expected.find("train, step 0: task 'mb0.L0.mlp.up.fwd.gemm' wrote a NaN or an infinity to"),
              std::string::npos)
        << expected;
    EXPECT_EQ(report(run, train::DeviceKind::cuda), expected);
  }
}

// Weights that grow a hundredfold in each step overflow in a step that is replayed.
TEST_F(CudaFinite, TheTaskOfAReplayedStepIsNamed) {
  testing::GridRun run = testing::narrow_run(graph::Grid{1, 1, 1, 1});
  run.steps = 40, run.lr = 10, run.warmup = 1, run.step.weight_decay = 10;
  const std::string eager = report(run, train::DeviceKind::cuda);
  EXPECT_NE(eager.find("wrote a NaN or an infinity to"), std::string::npos) << eager;
  EXPECT_EQ(eager.find("train, step 0:"), std::string::npos) << eager;
  EXPECT_EQ(report(run, train::DeviceKind::cuda, true), eager);
}

}  // namespace
}  // namespace weft
