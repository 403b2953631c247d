// Cores of ranks: which are near a GPU of a made-up machine, who shares them, and threads that really run there.
#include "runtime/execute/cpu/core_binding.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/log.h"
#include "runtime/comm/launch.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/runtime/execute/cpu/machine_tree.h"

namespace weft::execute {
namespace {

using testing::MachineTree;

Cores cores(std::string_view list) {
  return cores_in(list).value();
}

/// The cores of each rank that was given `given` and wants those near its GPU.
std::vector<std::string> bound(const MachineTree& tree, const std::vector<std::string>& given,
                               std::vector<std::uint64_t> machines = {}) {
  machines.resize(given.size());
  std::vector<CoreView> views;
  for (std::size_t rank = 0; rank < given.size(); ++rank) {
    const std::string address = MachineTree::address(static_cast<int>(rank) % MachineTree::kGpus);
    views.push_back({machines[rank], cores(given[rank]), place_of(tree.path(), address).cores});
  }
  std::vector<std::string> all;
  for (std::size_t rank = 0; rank < views.size(); ++rank) {
    const CoreShare share = share_of(views, rank);
    all.push_back(share.is_away
                      ? "away"
                      : to_string(part_of(share.cores, physical_cores(tree.path()), share.index, share.count)));
  }
  return all;
}

TEST(CoreBinding, ReadsListsOfCores) {
  EXPECT_EQ(to_string(cores("0-3,8,10-11")), "0-3,8,10-11");
  EXPECT_EQ(to_string(cores("7")), "7");
  EXPECT_TRUE(cores("").none());
  for (const char* wrong : {"x", "3-", "3-1", "1,", "0-1024", "1;2", "-1"}) EXPECT_EQ(cores_in(wrong), std::nullopt);
  EXPECT_EQ(cores_in("1023")->count(), 1U);
}

TEST(CoreBinding, FindsThePlaceOfAGpu) {
  const MachineTree tree;
  const PciPlace first = place_of(tree.path(), MachineTree::address(0));
  EXPECT_EQ(first.node, 0);
  EXPECT_EQ(to_string(first.cores), "0-4,6-15,32-47") << "core 5 is offline";
  EXPECT_EQ(first.networks, (std::vector<std::string>{"mlx5_0"}));
  EXPECT_EQ(place_of(tree.path(), MachineTree::address(4)).networks, (std::vector<std::string>{"mlx5_1", "eth0"}));
  for (const std::string& unknown : {MachineTree::address(7), std::string("0000:ff:00.0"), std::string()}) {
    EXPECT_EQ(place_of(tree.path(), unknown).node, -1);
    EXPECT_TRUE(place_of(tree.path(), unknown).cores.none());
  }
}

TEST(CoreBinding, FindsHyperthreadsOfACore) {
  const MachineTree tree;
  const std::vector<Cores> physical = physical_cores(tree.path());
  ASSERT_EQ(physical.size(), 32U);
  EXPECT_EQ(to_string(physical[0]), "0,32");
  EXPECT_EQ(to_string(physical[15]), "37") << "whose sibling is offline";
  EXPECT_EQ(to_string(physical[16]), "16,48");
  EXPECT_TRUE(physical_cores(tree.path() / "nothing").empty());
}

TEST(CoreBinding, RanksNearOneNodeShareItsCores) {
  const MachineTree tree;
  const std::string all = "0-4,6-63";
  EXPECT_EQ(bound(tree, std::vector<std::string>(8, all)),
            (std::vector<std::string>{"0-3,32-35", "4,6-8,36,38-40", "9-12,41-44", "13-15,37,45-47",  // node 0
                                      "16-20,48-52", "21-25,53-57", "26-31,58-63",                    // node 1
                                      ""}));                                                          // unknown
  EXPECT_EQ(bound(tree, {all}), (std::vector<std::string>{"0-4,6-15,32-47"}));
  EXPECT_EQ(bound(tree, {all, all}, {1, 2}), (std::vector<std::string>{"0-4,6-15,32-47", "0-4,6-15,32-47"}))
      << "two machines";
}

TEST(CoreBinding, KeepsWhatALauncherGave) {
  const MachineTree tree;
  EXPECT_EQ(bound(tree, {"0-3", "8-11", "12-15,16-20"}), (std::vector<std::string>{"0-3", "8-11", "12-15"}));
  EXPECT_EQ(bound(tree, {"0-3,32-35", "0-3,32-35"}), (std::vector<std::string>{"0-1,32-33", "2-3,34-35"}));
  EXPECT_EQ(bound(tree, {"16-31", "0-15"}), (std::vector<std::string>{"away", "0-4,6-15"}));
  EXPECT_EQ(bound(tree, {"0,32", "0,32"}), (std::vector<std::string>{"0", "32"})) << "one core has two hyperthreads";
  EXPECT_EQ(bound(tree, {"0", "0"}), (std::vector<std::string>{"0", "0"})) << "there is no core for each";
  EXPECT_FALSE(share_of(std::vector<CoreView>{{0, Cores(), cores("0-3")}}, 0).is_away) << "the system didn't tell";
}

TEST(CoreBinding, MovesAThreadAndBringsItBack) {
  const Cores before = given_cores();
  ASSERT_TRUE(before.any());
  Cores last;
  for (std::size_t core = 0; core < before.size(); ++core) {
    if (before[core]) last = Cores().set(core);
  }
  Cores within, of_new_thread;
  {
    const CoreBinding binding(last, false);
    within = given_cores();
    std::jthread([&] { of_new_thread = given_cores(); }).join();
  }
  EXPECT_EQ(within, last);
  EXPECT_EQ(of_new_thread, last);
  EXPECT_EQ(given_cores(), before);
}

TEST(CoreBinding, WarnsOnceOfRanksThatWereGivenNoNearCore) {
  const MachineTree tree;
  const testing::TemporaryFolder folder;
  const Cores elsewhere = ~given_cores();
  {
    RunLog log(LogLevel::info);
    log.open(folder.path("log.txt"));
    EXPECT_EQ(comm::run_ranks(3,
                              [&](comm::World& world) {
                                const Cores wanted = world.rank() == 0 ? Cores() : elsewhere;
                                return bind_rank(world, wanted, "", tree.path()) == nullptr ? 0 : 1;
                              }),
              0);
  }
  const std::string text = testing::TemporaryFolder::read(folder.path("log.txt"));
  EXPECT_EQ(text.find("warning"), text.rfind("warning"));
  EXPECT_TRUE(testing::has_parts(text, {"warning", "ranks 1, 2", "--cpu-bind=none"}));
}

TEST(CoreBinding, OfRanksThatAreThreadsIsTheirOwn) {
  const Cores before = given_cores();
  std::vector<Cores> found(2);
  EXPECT_EQ(comm::run_ranks(2,
                            [&](comm::World& world) {
                              const auto binding = bind_rank(world, before, "", "/sys");
                              found[static_cast<std::size_t>(world.rank())] = given_cores();
                              return 0;
                            }),
            0);
  EXPECT_EQ(found[0] | found[1], before);
  EXPECT_TRUE(before.count() < 2 || (found[0] & found[1]).none());
  EXPECT_EQ(given_cores(), before);
}

}  // namespace
}  // namespace weft::execute
