// Cores for the threads of ranks: those near a rank's GPU, or an equal part of those that it was given. What is near is
// read from sysfs, whose root is a parameter, so that tests have machines of their own.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/comm/communicator.h"

namespace weft::execute {

/// Logical cores of a machine by their numbers. Ranks of a machine with more of them are left where they are.
using Cores = std::bitset<1024>;

/// "0-3,8", as the kernel writes them; empty if it isn't such a list.
std::optional<Cores> cores_in(std::string_view list);
std::string to_string(const Cores& cores);

/// The place of a PCI device.
struct PciPlace {
  int node = -1;                           // of memory; −1: the system doesn't know it, as in many virtual machines
  Cores cores = {};                        // of the node; none if it isn't known
  std::vector<std::string> networks = {};  // devices of the node that reach other machines: "mlx5_0", "eth0"
};

/// `address`: "0000:1b:00.0".
PciPlace place_of(const std::filesystem::path& sysfs, const std::string& address);

/// The machine's cores, as sets of logical ones (hyperthreads); those of a NUMA node stand together.
std::vector<Cores> physical_cores(const std::filesystem::path& sysfs);

/// Part `index` of `count` equal ones, which cut no physical core where there are enough. With fewer logical cores than
/// parts each part has all of them.
Cores part_of(const Cores& cores, const std::vector<Cores>& physical, std::size_t index, std::size_t count);

/// What a rank tells all others.
struct CoreView {
  std::uint64_t machine = 0;  // AllowedCores::machine
  Cores given = {};           // on which the system lets it run
  Cores wanted = {};          // none: it stays as it is
};

/// The share of one rank: the cores that it wants, among those that it was given. Ranks of a machine with equal ones
/// divide them.
struct CoreShare {
  Cores cores = {};  // none: it stays as it is
  std::size_t index = 0, count = 1;
  bool is_away = false;  // it wants cores, and was given none of them
};
CoreShare share_of(std::span<const CoreView> views, std::size_t rank);

/// On which this thread may run; none if the system doesn't tell.
Cores given_cores();

/// Runs this thread, or all threads of this process, on these cores; as this thread ran before when it is destroyed.
class CoreBinding {
 public:
  CoreBinding(const Cores& cores, bool whole_process);
  ~CoreBinding();
  CoreBinding(const CoreBinding&) = delete;
  CoreBinding& operator=(const CoreBinding&) = delete;

 private:
  Cores before_;
  bool whole_process_;
};

/// Binds this rank to its share of the cores that it wants, and logs it; null if it stays as it is. `gpu`: the address
/// of the GPU that is near them, if any. Rank 0 warns of ranks that were given no such core. Of ranks that are threads
/// of one process each binds its own thread, whose new threads inherit that. Collective over the world.
std::unique_ptr<CoreBinding> bind_rank(comm::World& world, const Cores& wanted, std::string_view gpu,
                                       const std::filesystem::path& sysfs);

}  // namespace weft::execute
