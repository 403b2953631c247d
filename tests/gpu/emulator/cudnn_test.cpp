// Attention by cuDNN's engines: those that take much memory are left out, or the run is refused before its first step;
// a tuning table names one of them; and trials find the fastest.
#include "tests/gpu/emulator/cudnn.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "kernels/cuda/attention/cudnn_attention.h"
#include "ops/lower.h"
#include "runtime/execute/task_arguments.h"
#include "runtime/execute/tuning/gemm_trials.h"
#include "runtime/execute/tuning/gemm_tuning_file.h"
#include "tests/base/temporary_folder.h"
#include "tests/gpu/emulator/gpu.h"
#include "tests/gpu/gpu_run.h"
#include "tests/gpu/operation_case.h"
#include "train/step/device_choice.h"

namespace weft::emulator {
namespace {

constexpr std::int64_t kMoreThanMemory = std::int64_t{5} << 30, kMoreThanAllowed = std::int64_t{64} << 30;
static_assert(kMemoryBytes < kMoreThanMemory && kMoreThanMemory < execute::kAttentionWorkspace);

class AttentionEngines : public ::testing::Test {
 protected:
  void TearDown() override { set_attention_engines({}); }

  // As `weft train` runs it.
  static testing::GridOutcome run(std::int64_t attention_workspace = execute::kAttentionWorkspace) {
    testing::GridRun run = testing::small_run(ops::Family::gpt2, DType::bf16, {});
    train::RunConfig config;
    config.device = train::DeviceKind::cuda;
    config.attention_workspace = attention_workspace;
    run.make_executor = train::executor_of(config);
    return testing::run_grid(run);
  }
};

using Bytes = std::vector<std::vector<std::byte>>;

// Grouped queries and their gradient, with rows that don't touch, on the CPU and on the GPU.
class OneAttention {
 public:
  OneAttention() {
    const auto random = [&](std::int64_t cols, std::int64_t padding) {
      return cpu::testing::Tensor::random(DType::bf16, kSeq * kBatch, cols, seed_++, 1.0, padding);
    };
    const std::int64_t queries = kHeads * kDim, keys = kKvHeads * kDim;
    for (const std::int64_t cols : {queries, keys, keys}) host_.push_back(random(cols, 8));
    host_.emplace_back(DType::bf16, kBatch * kSeq, queries);
    host_.emplace_back(DType::f32, 1, kBatch * kHeads * kSeq);
    host_.push_back(random(queries, 0));
    for (const std::int64_t cols : {queries, keys, keys}) host_.emplace_back(DType::bf16, kBatch * kSeq, cols, 16);
    for (cpu::testing::Tensor& tensor : host_) device_.push_back(memory_.upload(tensor));
  }

  execute::AttentionProblem problem(bool backward, bool any_bits = false) {
    const std::vector<cpu::Matrix> slots =
        execute::fitted_arguments(backward ? graph::Operation(backward_) : graph::Operation(forward_), of(backward));
    execute::AttentionProblem problem = backward ? *execute::problem_of(execute::Call(backward_, slots))
                                                 : *execute::problem_of(execute::Call(forward_, slots));
    problem.any_bits = any_bits;
    return problem;
  }

  // out, log_sum_exp, dq, dk and dv.
  std::vector<cpu::testing::Tensor> run(const execute::CudaSettings& settings = {}) {
    execute::CudaLibraries libraries(settings);
    testing::prepare_on_gpu(forward_, of(false), memory_, libraries)->run(nullptr, nullptr);
    testing::prepare_on_gpu(backward_, of(true), memory_, libraries)->run(nullptr, nullptr);
    std::vector<cpu::testing::Tensor> results;
    for (const std::size_t i : {3, 4, 6, 7, 8}) results.push_back(memory_.download(device_[i]));
    return results;
  }
  Bytes bytes(const execute::CudaSettings& settings = {}) {
    Bytes all;
    for (cpu::testing::Tensor& tensor : run(settings)) {
      EXPECT_TRUE(tensor.padding_untouched());
      all.emplace_back(tensor.bytes().begin(), tensor.bytes().end());
    }
    return all;
  }
  Bytes bytes_by(std::vector<execute::AttentionChoice> choices, execute::AttentionGradient gradient = {}) {
    const auto table = std::make_shared<const execute::GemmTuning>(std::vector<execute::GemmChoice>(), std::nullopt,
                                                                   std::move(choices));
    return bytes({.tuning = table, .attention_gradient = gradient});
  }
  std::vector<cpu::testing::Tensor> run_on_cpu() {
    cpu::Workers workers(1);
    std::vector<cpu::testing::Tensor> all = host_;
    const auto run = [&](const graph::Operation& operation, bool backward) {
      std::vector<cpu::Matrix> arguments;
      for (std::size_t i = 0; i < (backward ? all.size() : 5); ++i) arguments.push_back(all[i].view());
      const execute::PreparedTask task(operation, arguments);
      workers.reserve(task.scratch());
      task.run(workers);
    };
    run(forward_, false);
    run(backward_, true);
    return {all[3], all[4], all[6], all[7], all[8]};
  }

 private:
  static constexpr std::int64_t kBatch = 2, kSeq = 24, kHeads = 4, kKvHeads = 2, kDim = 16;

  std::vector<cpu::Matrix> of(bool backward) const {
    return {device_.begin(), backward ? device_.end() : device_.begin() + 5};
  }

  std::uint64_t seed_ = 1;
  graph::AttentionForward forward_{kBatch, kSeq, kHeads, kKvHeads, kDim};
  graph::AttentionBackward backward_{kBatch, kSeq, kHeads, kKvHeads, kDim};
  std::vector<cpu::testing::Tensor> host_;
  testing::GpuMemory memory_;
  std::vector<cpu::Matrix> device_;
};

using execute::AttentionGradient;
using execute::AttentionMethod;

const CudnnEngine kFirst{.workspace_bytes = 4096}, kSecond{.pieces = 3, .number = 2},
    kShifting{.deterministic = false, .pieces = 2, .number = 3};
const AttentionMethod kByFirst{"eng1_k24=1"}, kBySecond{"eng2_k24=3"}, kByShifting{"eng3_k24=2", false};

TEST_F(AttentionEngines, OneThatTakesTooMuchGivesWayToOurKernel) {
  const testing::GridOutcome own = run();
  ASSERT_EQ(own.exit_code, 0) << own.errors;
  set_attention_engines({{kMoreThanAllowed}});
  testing::expect_equal(run(), own);
}

TEST_F(AttentionEngines, ARunThatOneDoesntFitIsRefused) {
  const testing::GridOutcome own = run();
  set_attention_engines({{kMoreThanMemory}});
  const testing::GridOutcome refused = run();
  EXPECT_EQ(refused.exit_code, 2) << refused.errors;
  EXPECT_NE(refused.errors.find("--attention-workspace"), std::string::npos) << refused.errors;
  testing::expect_equal(run(1 << 30), own);
}

TEST_F(AttentionEngines, TheFirstThatIsDeterministicAndFitsIsTaken) {
  const cuda::AttentionLayout layout{1, 128, 2, 2, 64, 384, 384, 384, 128, 128, 384, 384, 384};
  constexpr std::int64_t kSums = 1024;  // bytes of Σ dout·out
  cuda::CudnnHandle handle;
  set_attention_engines({{1024, false}, {8192}, {4096}, {2048}});
  const auto chosen = [&](std::int64_t most_workspace, bool any_bits = false) {
    const auto attention = cuda::CudnnAttention::make(handle, layout, true, {most_workspace, any_bits});
    return attention != nullptr ? attention->workspace_bytes() - kSums : -1;
  };
  EXPECT_EQ(chosen(8192), 8192);
  EXPECT_EQ(chosen(8191), 4096);
  EXPECT_EQ(chosen(2048), 2048);
  EXPECT_EQ(chosen(2047), -1);
  EXPECT_EQ(chosen(8192, true), 1024);
  EXPECT_EQ(cuda::CudnnAttention::make(handle, layout, false, {8192}), nullptr);
}

// The graphs that cuDNN is given are attention and its gradient, in whatever order their sums are added.
TEST_F(AttentionEngines, ComputeAttention) {
  OneAttention attention;
  std::vector<cpu::testing::Tensor> expected = attention.run_on_cpu();
  for (const CudnnEngine& engine : {kFirst, kSecond}) {
    set_attention_engines({engine}, {engine});
    std::vector<cpu::testing::Tensor> found = attention.run();
    for (std::size_t i = 0; i < found.size(); ++i) {
      const bool half = found[i].dtype() == DType::bf16;
      cpu::testing::expect_close(found[i].values(), expected[i].values(),
                                 half ? cpu::testing::Tolerance{2e-2, 4e-2} : cpu::testing::Tolerance{1e-4, 1e-4},
                                 std::to_string(i));
    }
  }
}

TEST_F(AttentionEngines, ATableNamesTheEngineOfEachDirection) {
  OneAttention attention;
  const Bytes own = attention.bytes();
  const auto only = [&](const CudnnEngine& forward, const CudnnEngine& backward) {
    set_attention_engines({backward}, {forward});
    return attention.bytes();
  };
  const Bytes of_first = only(kFirst, kFirst), of_both = only(kFirst, kSecond), of_second = only(kSecond, kSecond);
  EXPECT_NE(of_first, of_both);
  EXPECT_NE(of_second, of_both);

  set_attention_engines({kShifting, kFirst, kSecond}, {kFirst, kSecond});
  EXPECT_EQ(attention.bytes(), of_first);
  const execute::AttentionProblem forward = attention.problem(false), backward = attention.problem(true);
  EXPECT_EQ(attention.bytes_by({{backward, kBySecond}}), of_both);
  EXPECT_EQ(attention.bytes_by({{backward, kBySecond}, {forward, kBySecond}}), of_second);
  EXPECT_EQ(attention.bytes_by({{backward, {}}, {forward, {}}}), own) << "Weft's own kernels";
}

// As after a change that the library's version doesn't tell: the default engine runs, and the log says so once.
TEST_F(AttentionEngines, OneOfATableThatIsNoMoreIsReplaced) {
  OneAttention attention;
  const execute::AttentionProblem backward = attention.problem(true);
  set_attention_engines({kFirst, kSecond}, {kFirst});
  const Bytes usual = attention.bytes();
  const testing::TemporaryFolder folder;
  {
    RunLog log;
    log.open(folder.path("log.txt"));
    EXPECT_EQ(attention.bytes_by({{backward, kByShifting}}), usual);
  }
  const std::string text = testing::TemporaryFolder::read(folder.path("log.txt"));
  EXPECT_EQ(std::ranges::count(text, '\n'), 1) << text;
  EXPECT_NE(text.find(kByShifting.engine), std::string::npos) << text;
  // One that takes too much memory is replaced like one that isn't there.
  set_attention_engines({kSecond, kFirst}, {kSecond});
  const Bytes by_second = attention.bytes();
  const auto table = std::make_shared<const execute::GemmTuning>(
      std::vector<execute::GemmChoice>(), std::nullopt, std::vector<execute::AttentionChoice>{{backward, kByFirst}});
  EXPECT_EQ(attention.bytes({.tuning = table, .attention_workspace = 4095}), by_second);
}

TEST_F(AttentionEngines, OnlyTheFastestGradientMayNotRepeatItsBits) {
  OneAttention attention;
  set_attention_engines({kShifting, kFirst, kSecond}, {kShifting, kFirst});
  const Bytes usual = attention.bytes();
  EXPECT_EQ(attention.bytes(), usual);
  const execute::CudaSettings fastest{.attention_gradient = AttentionGradient::fastest};
  const Bytes once = attention.bytes(fastest), again = attention.bytes(fastest);
  EXPECT_NE(once, again);
  EXPECT_EQ(Bytes(once.begin(), once.begin() + 2), Bytes(usual.begin(), usual.begin() + 2)) << "out and log_sum_exp";
  // Choices among all engines are for runs that allow all, and no others.
  const execute::AttentionProblem all = attention.problem(true, true), some = attention.problem(true);
  EXPECT_EQ(attention.bytes_by({{all, kByFirst}}, AttentionGradient::fastest), usual);
  EXPECT_EQ(attention.bytes_by({{all, kBySecond}}), usual);
  EXPECT_NE(attention.bytes_by({{some, kBySecond}}), usual);
  EXPECT_NE(attention.bytes_by({{all, kByShifting}}, AttentionGradient::fastest),
            attention.bytes_by({{all, kByShifting}}, AttentionGradient::fastest));
}

TEST_F(AttentionEngines, TrialsFindTheFastestThatIsAllowed) {
  using std::chrono::milliseconds;
  OneAttention attention;
  CudnnEngine first = kFirst, second = kSecond, shifting = kShifting;
  first.takes = milliseconds(80), second.takes = milliseconds(20);
  set_attention_engines({shifting, first, second, first}, {first, second});
  const auto tried = [&](bool backward, bool any_bits, std::int64_t most_workspace = 4096) {
    return execute::device_attention_trials({.rounds = 1}, most_workspace)(attention.problem(backward, any_bits));
  };
  const execute::AttentionTrial forward = tried(false, false), backward = tried(true, false), any = tried(true, true);
  EXPECT_EQ(forward.candidates, 3U) << "two engines, and Weft's own kernel";
  EXPECT_EQ(backward.candidates, 3U);
  EXPECT_EQ(any.candidates, 4U);
  EXPECT_EQ(forward.usual, kByFirst);
  EXPECT_EQ(backward.usual, kByFirst);
  EXPECT_EQ(any.usual, kByShifting);
  EXPECT_TRUE(backward.chosen == kBySecond || backward.chosen == AttentionMethod{}) << to_string(backward);
  EXPECT_TRUE(any.chosen == kByShifting || any.chosen == AttentionMethod{}) << to_string(any);
  EXPECT_GE(backward.usual_seconds, 0.08);
  EXPECT_EQ(tried(true, false, 4095).usual, kBySecond);
  set_attention_engines({});
  EXPECT_EQ(tried(true, false).candidates, 1U);
}

// As `weft train --gemm-tuning FILE` runs it, from a file.
TEST_F(AttentionEngines, ARunTakesTheEnginesOfItsFile) {
  set_attention_engines({kFirst, kSecond}, {kFirst, kSecond});
  testing::GridRun run = testing::small_run(ops::Family::gpt2, DType::bf16, {});
  const auto graph = ops::lower_train(run.model, run.step);
  std::vector<execute::AttentionChoice> choices;
  for (const execute::AttentionUse& use : execute::attention_of(std::array{graph})) {
    choices.push_back({use.problem, kBySecond});
  }
  EXPECT_EQ(choices.size(), 2U) << "forward and backward";
  const execute::TunedGemms tuned{execute::device_tuning_machine(), 1, execute::GemmTuning({}, std::nullopt, choices)};
  const std::string text = execute::to_json(tuned);
  const auto read = std::make_shared<const execute::TunedGemms>(execute::parse_gemm_tuning(text, "t.json"));
  train::RunConfig config;
  config.device = train::DeviceKind::cuda;
  const auto outcome_of = [&](const std::shared_ptr<const execute::GemmTuning>& table) {
    run.gemm_tuning = table;
    run.make_executor = train::executor_of(config, table);
    return testing::run_grid(run);
  };
  const testing::GridOutcome by_first = outcome_of(nullptr), by_file = outcome_of(execute::table_of(read));
  ASSERT_EQ(by_file.exit_code, 0) << by_file.errors;
  EXPECT_NE(by_file.arrays, by_first.arrays);
  set_attention_engines({kSecond}, {kSecond});
  testing::expect_equal(outcome_of(nullptr), by_file);
}

TEST_F(AttentionEngines, AFileOfAnotherCudnnIsRefused) {
  OneAttention attention;
  execute::TunedGemms tuned{execute::device_tuning_machine(), 1,
                            execute::GemmTuning({}, std::nullopt, {{attention.problem(true), kBySecond}})};
  const auto read = [&] { return execute::parse_gemm_tuning(execute::to_json(tuned), "t.json"); };
  EXPECT_EQ(read().machine, execute::device_tuning_machine());
  tuned.machine.of_attention = "cuDNN 1.2.3";
  EXPECT_THROW(read(), UserError);
  tuned.table = execute::GemmTuning();
  EXPECT_NO_THROW(read()) << "a table of products alone";
}

}  // namespace
}  // namespace weft::emulator
