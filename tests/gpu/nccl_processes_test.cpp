// NCCL between processes that share a GPU. Each calls itself another host, so that NCCL accepts their common device,
// and they talk by sockets. The test's own process opens no GPU, because the ranks that it forks couldn't use one then.
// This shows that the calls are legal, end, and give the right values; nothing of speed. Emulated GPUs know NCCL within
// a process alone: there the ranks are threads with a GPU each.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "ops/pipeline_layout.h"
#include "runtime/policy/catalog/policies.h"
#include "tests/gpu/gpu_run.h"
#include "tests/gpu/nccl_calls.h"
#include "tests/runtime/comm/forked_world.h"

namespace weft {
namespace {

using graph::Channel;
using testing::RankEnd;
using How = RankEnd::How;

constexpr std::chrono::seconds kLimit{30};  // for a case of some seconds

// NCCL reads these once a process.
void set_environment(int rank) {
  const std::string host = "rank-" + std::to_string(rank);
  for (const auto& [name, value] : std::vector<std::pair<const char*, const char*>>{{"NCCL_HOSTID", host.c_str()},
                                                                                    {"NCCL_P2P_DISABLE", "1"},
                                                                                    {"NCCL_SHM_DISABLE", "1"},
                                                                                    {"NCCL_NET", "Socket"},
                                                                                    {"NCCL_SOCKET_IFNAME", "lo"},
                                                                                    {"NCCL_NVLS_ENABLE", "0"},
                                                                                    {"NCCL_MNNVL_ENABLE", "0"},
                                                                                    {"NCCL_MAX_CTAS", "2"}}) {
    ::setenv(name, value, 1);
  }
  ::setenv("NCCL_DEBUG", "WARN", 0);
}

std::vector<RankEnd> run_ranks(int ranks, const testing::RankWork& work) {
  if (testing::kEmulated) return testing::run_threads(ranks, work);
  return testing::run_forked(ranks, kLimit, [&](comm::World& world) {
    set_environment(world.rank());
    return work(world);
  });
}

int ordinal_of(const comm::World& world) {
  return testing::kEmulated ? world.rank() : 0;
}

// A process dies without a word.
void leave() {
  if (!testing::kEmulated) ::_exit(9);
  throw std::runtime_error("gone");
}

void expect_all_returned(const std::vector<RankEnd>& ends) {
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    EXPECT_EQ(ends[rank].how, How::returned) << "rank " << rank << ": " << ends[rank].why;
  }
}

class NcclProcesses : public ::testing::TestWithParam<int> {
 protected:
  static void SetUpTestSuite() {
    if (!is_alone()) return;
    const auto ends = run_ranks(
        1, [](comm::World&) { return std::vector<double>{execute::report_devices().missing.empty() ? 1.0 : 0.0}; });
    has_gpu_ = ends.front().values == std::vector{1.0};
  }
  void SetUp() override {
    if (!is_alone()) GTEST_SKIP() << "run it alone, by --gtest_filter: other tests open the GPU in this process";
    if (!has_gpu_) GTEST_SKIP() << "no GPU";
  }

  // A process that has opened a GPU can't fork ranks that use it.
  static bool is_alone() {
    const auto& all = *::testing::UnitTest::GetInstance();
    return testing::kEmulated || all.test_to_run_count() == all.current_test_suite()->test_to_run_count();
  }

  // The channels may depend on the rank.
  static std::vector<RankEnd> run_calls(const graph::Grid& grid, bool captured,
                                        const std::function<std::vector<Channel>(const comm::World&)>& channels) {
    return run_ranks(static_cast<int>(grid.ranks()), [&](comm::World& world) {
      execute::CudaDevice device(ordinal_of(world));
      testing::NcclCalls calls(world, grid, device, channels(world));
      calls.run(captured);
      return std::vector<double>();
    });
  }

  static bool has_gpu_;
};
bool NcclProcesses::has_gpu_ = false;

// With four ranks, groups of two run along x and data, and one of four is the world.
graph::Grid flat_grid(int ranks) {
  return ranks == 2 ? graph::Grid{1, 1, 2, 1} : graph::Grid{2, 1, 1, 2};
}
std::vector<Channel> flat_channels(const comm::World& world) {
  return world.size() == 2 ? std::vector{Channel::z_gather, Channel::z_scatter, Channel::world}
                           : std::vector{Channel::x, Channel::data, Channel::world};
}

TEST_P(NcclProcesses, Collectives) {
  expect_all_returned(run_calls(flat_grid(GetParam()), false, flat_channels));
}

TEST_P(NcclProcesses, CapturedCollectives) {
  expect_all_returned(run_calls(flat_grid(GetParam()), true, flat_channels));
}

// The stages are a ring. The first message to a peer waits until the peer has come to it, so neighbours begin with the
// two ends of one message.
std::vector<Channel> message_channels(const comm::World& world) {
  std::vector<Channel> channels = {Channel::send_next, Channel::receive_previous, Channel::send_previous,
                                   Channel::receive_next};
  if (world.rank() % 2 == 1) std::ranges::transform(channels, channels.begin(), graph::other_end);
  return channels;
}

TEST_P(NcclProcesses, Messages) {
  expect_all_returned(run_calls({.pipe = GetParam()}, false, message_channels));
}

TEST_P(NcclProcesses, CapturedMessages) {
  expect_all_returned(run_calls({.pipe = GetParam()}, true, message_channels));
}

testing::GridRun training_run(const graph::Grid& grid) {
  testing::GridRun run = testing::small_run(ops::Family::gpt2, DType::f32, grid);
  run.steps = 3;  // the third one is replayed
  if (grid.pipe > 1) {
    run.policy = "1f1b";
    run.step.pipeline =
        ops::balanced_layout(run.model, run.step.seq_len, grid.pipe, policy::make_policy("1f1b")->chunks());
  }
  return run;
}

std::vector<RankEnd> train(const testing::GridRun& run) {
  return run_ranks(static_cast<int>(run.step.grid.ranks()), [&](comm::World& world) {
    testing::GridOutcome outcome;
    std::mutex mutex;
    testing::run_grid_rank(run, world, outcome, mutex);
    return outcome.losses;
  });
}

// Sums go around rings, so they equal the sums of one rank up to rounding.
void expect_losses(const std::vector<RankEnd>& together, const std::vector<RankEnd>& alone) {
  expect_all_returned(alone);
  expect_all_returned(together);
  const std::vector<double>&actual = together.front().values, &expected = alone.front().values;
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i)
    EXPECT_NEAR(actual[i], expected[i], 1e-5 * expected[i]) << "step " << i;
}
void expect_losses_of_one_rank(const graph::Grid& grid, bool replayed, const execute::NcclSettings& settings = {}) {
  static const std::vector<RankEnd> alone = train(testing::on_gpu(training_run({})));
  expect_losses(train(testing::on_gpus(training_run(grid), replayed, !testing::kEmulated, settings)), alone);
}

// The ranks share the sequences by two.
TEST_P(NcclProcesses, ReplayedContexts) {
  expect_losses_of_one_rank({.z = GetParam(), .context = 2}, true);
}

// The ranks have experts of their own, to which each step sends other rows. No logits are so near that another order of
// additions would choose otherwise.
TEST_P(NcclProcesses, ReplayedExperts) {
  const auto run_on = [](const graph::Grid& grid) {
    testing::GridRun run = testing::small_run(ops::Family::mixtral, DType::f32, grid);
    run.steps = 3;
    return run;
  };
  const std::vector<RankEnd> alone = train(testing::on_gpu(run_on({})));
  const graph::Grid grid{.z = GetParam(), .expert = GetParam()};
  expect_losses(train(testing::on_gpus(run_on(grid), true, !testing::kEmulated)), alone);
}

graph::Grid stages(int ranks) {
  return {.data = ranks / 2, .pipe = 2};
}

TEST_P(NcclProcesses, TrainingSteps) {
  expect_losses_of_one_rank(flat_grid(GetParam()), false);
}

// Beside the above: NCCL's other ways.
TEST_P(NcclProcesses, TrainingStepsWithGroupedGathers) {
  expect_losses_of_one_rank(flat_grid(GetParam()), false, {.grouped_gathers = true});
}

TEST_P(NcclProcesses, TrainingStepsWithSupervisedCalls) {
  expect_losses_of_one_rank(flat_grid(GetParam()), false, {.supervised = true});
}

TEST_P(NcclProcesses, TrainingStepsWithRegisteredBuffers) {
  expect_losses_of_one_rank(flat_grid(GetParam()), false, {.registered = true});
}

TEST_P(NcclProcesses, TrainingStepsOnOneChannel) {
  expect_losses_of_one_rank(flat_grid(GetParam()), false, {.channels = 1});
}

TEST_P(NcclProcesses, TrainingStepsByLL) {
  expect_losses_of_one_rank(flat_grid(GetParam()), false, {.protocol = execute::NcclSettings::Protocol::ll});
  if (testing::kEmulated) ::setenv("NCCL_PROTO", "Simple", 1);  // other tests' ranks are in this process
}

TEST_P(NcclProcesses, ReplayedTrainingSteps) {
  expect_losses_of_one_rank(flat_grid(GetParam()), true);
}

TEST_P(NcclProcesses, Stages) {
  expect_losses_of_one_rank(stages(GetParam()), false);
}

TEST_P(NcclProcesses, ReplayedStages) {
  expect_losses_of_one_rank(stages(GetParam()), true);
}

// Collectives on all channels wait for peers that never come. Each must be abortable while the others wait.
TEST_P(NcclProcesses, AStopEndsEveryChannel) {
  const int ranks = GetParam();
  expect_all_returned(run_ranks(ranks, [&](comm::World& world) {
    execute::CudaDevice device(ordinal_of(world));
    testing::NcclCalls calls(world, flat_grid(ranks), device, flat_channels(world));
    calls.run_once(0);
    if (world.rank() == 0) calls.enqueue_first_of_each_channel();
    world.barrier();
    calls.transport().stop();
    device.synchronize(calls.origin());
    return std::vector<double>();
  }));
}

// The last rank leaves before a step.
void expect_a_lost_rank_ends(const graph::Grid& grid, std::int64_t step, bool replayed) {
  testing::GridRun run = testing::on_gpus(training_run(grid), replayed, !testing::kEmulated);
  run.before_step = [step](const comm::World& world, std::int64_t k) {
    if (k == step && world.rank() == world.size() - 1) leave();
  };
  const std::vector<RankEnd> ends = train(run);
  EXPECT_EQ(ends.back().how, testing::kEmulated ? How::failed : How::died) << ends.back().why;
  for (std::size_t rank = 0; rank + 1 < ends.size(); ++rank) {
    EXPECT_EQ(ends[rank].how, How::lost_a_peer) << "rank " << rank << ": " << ends[rank].why;
  }
}

TEST_P(NcclProcesses, ARankThatNeverComesEndsTheRun) {
  expect_a_lost_rank_ends(flat_grid(GetParam()), 0, false);
}

TEST_P(NcclProcesses, ALostRankEndsTheRun) {
  expect_a_lost_rank_ends(flat_grid(GetParam()), 2, false);
}

TEST_P(NcclProcesses, ALostRankEndsAReplay) {
  expect_a_lost_rank_ends(flat_grid(GetParam()), 2, true);
}

INSTANTIATE_TEST_SUITE_P(Of, NcclProcesses, ::testing::Values(2, 4),
                         [](const auto& info) { return std::to_string(info.param) + "Ranks"; });

}  // namespace
}  // namespace weft
