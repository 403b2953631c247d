// A run on every rank. Configurations, builds and kernels must be equal: if ranks differ, every rank reports the same
// difference.
#include "train/run/launch_run.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/comm/agreement.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/runtime/comm/ranks.h"

namespace weft::train {
namespace {

RunConfig three_ranks() {
  RunConfig config;
  config.ranks = 3;
  config.global_batch = 6;
  return config;
}

TEST(LaunchRun, RunsEveryRankOnTheResolvedConfiguration) {
  std::mutex mutex;
  std::set<int> ranks;
  std::set<std::string> folders;
  const int code = run_on_ranks(three_ranks(), [&](comm::World& world, const ResolvedRun& run) {
    const RunConfig& config = run.config;
    const std::lock_guard lock(mutex);
    EXPECT_EQ(world.size(), 3);
    EXPECT_EQ(config.grid.data, 3);
    EXPECT_EQ(config.micro_batch, 2);
    EXPECT_EQ(config.seq_len, config.model.context);
    EXPECT_GT(config.threads, 0);
    ranks.insert(world.rank());
    folders.insert(config.run_dir);
    return 0;
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(ranks, (std::set<int>{0, 1, 2}));
  EXPECT_EQ(folders.size(), 1U);
  EXPECT_NE(*folders.begin(), "");
}

TEST(LaunchRun, GridAloneSaysHowManyRanks) {
  RunConfig config;
  config.grid.data = 4;
  std::atomic<int> calls = 0;
  EXPECT_EQ(run_on_ranks(config, [&](comm::World&, const ResolvedRun&) { return ++calls, 0; }), 0);
  EXPECT_EQ(calls, 4);
}

TEST(LaunchRun, AdjustsBeforeResolving) {
  RunConfig config = three_ranks();
  config.global_batch = 7;  // 3 ranks can't share it
  EXPECT_THROW(run_on_ranks(config, [](comm::World&, const ResolvedRun&) { return 0; }), UserError);
  const auto adjust = [](RunConfig& changed, std::int64_t ranks) { changed.global_batch = 5 * ranks; };
  const int code = run_on_ranks(
      config,
      [](comm::World&, const ResolvedRun& run) {
        EXPECT_EQ(run.config.global_batch, 15);
        return 0;
      },
      adjust);
  EXPECT_EQ(code, 0);
}

TEST(LaunchRun, AGridIsChosenOnceForTheRanks) {
  RunConfig config;
  config.ranks = 4;
  config.grid_auto = true;
  const auto body = [](comm::World&, const ResolvedRun& run) {
    EXPECT_FALSE(run.config.grid_auto);
    EXPECT_EQ(run.config.grid.z, 4);
    EXPECT_EQ(run.config.micro_batch, 1);
    return 0;
  };
  EXPECT_THROW(run_on_ranks(config, body), UserError);  // nobody chooses
  int calls = 0;
  const ChooseGrid choose = [&](const RunConfig& open, const RankCount& ranks) {
    EXPECT_TRUE(open.grid_auto);
    EXPECT_EQ(ranks.all, 4);
    EXPECT_EQ(ranks.on_node, 4);
    ++calls;
    return std::vector<Setting>{{"grid", "z=4", ""}, {"micro-batch", "1", ""}};
  };
  EXPECT_EQ(run_on_ranks(config, body, {}, choose), 0);
  EXPECT_EQ(calls, 1);
  // As many ranks as the grid had that was there before; a grid that is given isn't chosen.
  config.ranks = 0;
  config.grid.data = 4;
  EXPECT_EQ(run_on_ranks(config, body, {}, choose), 0);
  config.grid_auto = false;
  EXPECT_EQ(run_on_ranks(
                config,
                [](comm::World&, const ResolvedRun& run) {
                  EXPECT_EQ(run.config.grid.data, 4);
                  return 0;
                },
                {}, choose),
            0);
  EXPECT_EQ(calls, 2);
}

TEST(LaunchRun, TheGreatestExitCodeWins) {
  EXPECT_EQ(run_on_ranks(three_ranks(), [](comm::World& world, const ResolvedRun&) { return world.rank(); }), 2);
}

/// The refusals of three ranks, by rank.
std::vector<std::string> refusals(const std::function<void(comm::World&)>& check) {
  std::vector<std::string> messages(3);
  testing::on_own_worlds(3, [&](comm::World& world) {
    messages[static_cast<std::size_t>(world.rank())] = testing::message_of<UserError>([&] { check(world); });
  });
  return messages;
}

std::vector<std::string> config_refusals(const std::function<void(RunConfig&, int rank)>& change) {
  return refusals([&](comm::World& world) {
    RunConfig config;
    change(config, world.rank());
    expect_same_config(world, config);
  });
}

const std::vector<std::string> kNone(3);

TEST(RankAgreement, TheFirstDifferenceOfConfigurationsIsNamedOnEveryRank) {
  EXPECT_EQ(config_refusals([](RunConfig& config, int) { config.lr = 0.5; }), kNone);
  EXPECT_EQ(config_refusals([](RunConfig& config, int rank) {  // what changes no result
              config.run_dir = std::to_string(rank);
              config.threads = rank;
            }),
            kNone);
  const auto expect_refused = [](const std::function<void(RunConfig&, int rank)>& change,
                                 const std::vector<std::string_view>& parts) {
    for (const std::string& message : config_refusals(change)) EXPECT_TRUE(has_parts(message, parts));
  };
  const auto rate_and_decay = [](RunConfig& config, int rank) {
    config.lr = rank == 2 ? 2e-3 : 1e-3;
    config.weight_decay = static_cast<float>(rank);
  };
  const auto data = [](RunConfig& config, int rank) { config.data = rank == 1 ? "b" : ""; };
  const auto size = [](RunConfig& config, int rank) {
    set_key(config, "model.hidden", rank == 1 ? "64" : "128", "test");
  };
  expect_refused(rate_and_decay, {"rank 2 was started with lr = 0.002, rank 0 with lr = 0.001", "fix: "});
  expect_refused(data, {"rank 1 was started with data = b, rank 0 with data = "});
  expect_refused(size, {"model.hidden = 64", "model.hidden = 128"});
}

TEST(RankAgreement, FactsAreComparedByName) {
  const auto messages = refusals([](comm::World& world) {
    comm::expect_same_facts(world, {{"equal", ""}, {"checkpoint step", world.rank() == 1 ? "10" : "20"}, {"rank", ""}});
  });
  for (const std::string& message : messages) {
    EXPECT_TRUE(has_parts(message, {"rank 1 has checkpoint step = 10, rank 0 has checkpoint step = 20", "fix: "}));
  }
  EXPECT_EQ(refusals([](comm::World& world) { comm::expect_same_facts(world, {{"a", "1"}, {"b", ""}}); }), kNone);
}

TEST(RankAgreement, WhatOneRankRefusesAllRefuse) {
  for (const std::string& message : refusals([](comm::World& world) {
         comm::act_together(world, [&] {
           if (world.rank() == 2) throw UserError("no file", "a file", "make one");
         });
       })) {
    EXPECT_EQ(message, "rank 2: no file; expected a file\n  fix: make one");
  }
  for (const std::string& message :
       refusals([](comm::World& world) { comm::act_together(world, [] { throw UserError("no file", "", ""); }); })) {
    EXPECT_EQ(message, "no file");
  }
  EXPECT_EQ(refusals([](comm::World& world) { comm::act_together(world, [] {}); }), kNone);
}

TEST(RankAgreement, OneBuildPasses) {
  EXPECT_EQ(refusals([](comm::World& world) { expect_same_build(world); }), kNone);
}

TEST(RankAgreement, AllRanksHaveOneLevelOfInstructions) {
  const auto with_levels = [](const std::vector<std::string>& levels) {
    return refusals(
        [&](comm::World& world) { expect_same_kernels(world, levels[static_cast<std::size_t>(world.rank())]); });
  };
  EXPECT_EQ(with_levels({"v3", "v3", "v3"}), kNone);
  for (const std::string& message : with_levels({"v4", "v4", "v3"})) {
    EXPECT_TRUE(has_parts(message, {"rank 2 has a CPU for kernels = v3, rank 0 one for kernels = v4", "--isa v3"}));
  }
}

TEST(RankAgreement, TheBuildIdIsThatOfTheExecutable) {
  const std::string id = build_id();
  if (id.empty()) GTEST_SKIP() << "the linker gave this program no build id";
  ASSERT_EQ(id.size() % 2, 0U);
  std::string raw;
  for (std::size_t i = 0; i < id.size(); i += 2) raw += static_cast<char>(std::stoi(id.substr(i, 2), nullptr, 16));
  const std::string file = testing::TemporaryFolder::read("/proc/self/exe");
  EXPECT_NE(file.find(std::string("GNU\0", 4) + raw), std::string::npos);
}

}  // namespace
}  // namespace weft::train
