// A made-up sysfs of a machine: two sockets of 16 cores with two hyperthreads each, one of which is offline, and eight
// GPUs, whose last one has no known node.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <string>

#include "tests/base/temporary_folder.h"

namespace weft::testing {

class MachineTree {
 public:
  static constexpr int kGpus = 8, kOffline = 5;

  MachineTree() {
    folder_.write("devices/system/cpu/online", fmt::format("0-{},{}-63\n", kOffline - 1, kOffline + 1));
    for (int core = 0; core < 64; ++core) {
      if (core == kOffline) continue;  // the kernel removes its topology
      const int first = core % 32;
      folder_.write(fmt::format("devices/system/cpu/cpu{}/topology/thread_siblings_list", core),
                    first == kOffline ? fmt::format("{}\n", core) : fmt::format("{},{}\n", first, first + 32));
    }
    folder_.write("devices/system/node/node0/cpulist", "0-4,6-15,32-47\n");
    folder_.write("devices/system/node/node1/cpulist", "16-31,48-63\n");
    folder_.write("devices/system/node/online", "0-1\n");
    for (int gpu = 0; gpu < kGpus; ++gpu) {
      const int node = gpu == kGpus - 1 ? -1 : gpu / 4;
      add_gpu(address(gpu), node, node < 0 ? "0-63" : node == 0 ? "0-15,32-47" : "16-31,48-63");
    }
    folder_.write("class/infiniband/mlx5_0/device/numa_node", "0\n");
    folder_.write("class/infiniband/mlx5_1/device/numa_node", "1\n");
    folder_.write("class/net/eth0/device/numa_node", "1\n");
    folder_.write("class/net/lo/address", "00:00:00:00:00:00\n");
  }

  /// The addresses are those of emulated GPUs, too.
  static std::string address(int gpu) { return fmt::format("0000:{:02x}:00.0", 0x1b + gpu); }
  void add_gpu(const std::string& at, int node, const std::string& near) const {
    const std::string device = "bus/pci/devices/" + at;
    folder_.write(device + "/numa_node", fmt::format("{}\n", node));
    folder_.write(device + "/local_cpulist", near + "\n");
  }
  const std::filesystem::path& path() const { return folder_.path(); }

 private:
  const TemporaryFolder folder_;
};

}  // namespace weft::testing
