// Ranks run on the cores near their GPUs, as a made-up machine says, while their program is there.
#include "runtime/execute/cpu/core_binding.h"

#include "runtime/comm/launch.h"
#include "tests/gpu/gpu_test.h"
#include "tests/runtime/execute/cpu/machine_tree.h"
#include "train/step/device_choice.h"

namespace weft {
namespace {

class CoreBindingOfGpus : public testing::SeveralGpus<2> {
 protected:
  /// The cores of each of two ranks where GPU r is near core r, and those after its binding.
  static std::vector<execute::Cores> cores_of_ranks(train::Binding bind) {
    const testing::MachineTree tree;
    const std::vector<std::string> addresses = execute::report_devices().addresses;
    const std::vector<execute::Cores> near = two_cores();
    for (std::size_t gpu = 0; gpu < 2; ++gpu) {
      tree.add_gpu(addresses[gpu], static_cast<int>(gpu), execute::to_string(near[gpu]));
    }
    train::RunConfig config;
    config.device = train::DeviceKind::cuda;
    config.bind = bind;
    const execute::BindCores binding = train::binding_of(config, tree.path());
    std::vector<execute::Cores> found(2);
    comm::run_ranks(2, [&](comm::World& world) {
      const auto bound = binding == nullptr ? nullptr : binding(world);
      found[static_cast<std::size_t>(world.rank())] = execute::given_cores();
      return 0;
    });
    return found;
  }

  /// The first two of this process; fewer if it has fewer.
  static std::vector<execute::Cores> two_cores() {
    const execute::Cores given = execute::given_cores();
    std::vector<execute::Cores> cores;
    for (std::size_t core = 0; core < given.size() && cores.size() < 2; ++core) {
      if (given[core]) cores.emplace_back().set(core);
    }
    return cores;
  }
};

TEST_F(CoreBindingOfGpus, RunsRanksNearThem) {
  if (two_cores().size() < 2) GTEST_SKIP() << "needs two cores";
  const execute::Cores given = execute::given_cores();
  EXPECT_EQ(cores_of_ranks(train::Binding::automatic), two_cores());
  EXPECT_EQ(cores_of_ranks(train::Binding::none), (std::vector<execute::Cores>{given, given}));
}

TEST_F(CoreBindingOfGpus, KnowsTheirAddresses) {
  const execute::DeviceReport report = execute::report_devices();
  ASSERT_EQ(report.addresses.size(), report.devices.size());
  EXPECT_NE(report.addresses[0], report.addresses[1]);
  EXPECT_TRUE(!testing::kEmulated || report.addresses[1] == testing::MachineTree::address(1));
}

}  // namespace
}  // namespace weft
