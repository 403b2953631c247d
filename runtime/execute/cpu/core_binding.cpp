#include "runtime/execute/cpu/core_binding.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <system_error>

#include "base/log.h"
#include "runtime/execute/cpu/shared_cores.h"

namespace weft::execute {
namespace {

namespace fs = std::filesystem;

std::string line_of(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::optional<int> number_in_file(const fs::path& path) {
  const std::string line = line_of(path);
  int number = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::error_code error;  // a machine may lack the folder
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(folder, error)) entries.push_back(entry.path());
  std::ranges::sort(entries);
  return entries;
}

Cores cores_in_file(const fs::path& path) {
  return cores_in(line_of(path)).value_or(Cores());
}

Cores online_cores(const fs::path& sysfs) {
  return cores_in_file(sysfs / "devices/system/cpu/online");
}

/// The cores of each NUMA node, by its number.
std::map<int, Cores> nodes_of(const fs::path& sysfs) {
  std::map<int, Cores> nodes;
  for (const fs::path& entry : entries_of(sysfs / "devices/system/node")) {
    const std::string name = entry.filename().string();
    constexpr std::string_view kPrefix = "node";
    int number = 0;
    const char* const end = name.data() + name.size();
    if (!name.starts_with(kPrefix) || std::from_chars(name.data() + kPrefix.size(), end, number).ptr != end) continue;
    nodes[number] = cores_in_file(entry / "cpulist");
  }
  return nodes;
}

void set_affinity(pid_t thread, const Cores& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (std::size_t core = 0; core < cores.size(); ++core) {
    if (cores[core]) CPU_SET(core, &set);
  }
  // A thread that has ended meanwhile doesn't matter, and one that the system keeps elsewhere still runs.
  (void)sched_setaffinity(thread, sizeof set, &set);
}

void set_affinity(const Cores& cores, bool whole_process) {
  if (whole_process) {
    for (const fs::path& thread : entries_of("/proc/self/task")) set_affinity(std::stoi(thread.filename()), cores);
  }
  set_affinity(0, cores);
}

void warn_of_ranks_away(std::span<const CoreView> views) {
  std::vector<std::size_t> away;
  for (std::size_t rank = 0; rank < views.size(); ++rank) {
    if (share_of(views, rank).is_away) away.push_back(rank);
  }
  if (away.empty()) return;
  Log(LogTopic::run, 0)
      .warning(
          "ranks {} stay on cores far from their GPUs: rank {} was given {}, and {} are near its GPU; let the "
          "launcher bind by GPU, or not at all (srun --cpu-bind=none, mpirun --bind-to none)",
          fmt::join(away, ", "), away.front(), to_string(views[away.front()].given),
          to_string(views[away.front()].wanted));
}

}  // namespace

std::optional<Cores> cores_in(std::string_view list) {
  Cores cores;
  const char* at = list.data();
  const char* const end = at + list.size();
  while (at != end) {
    std::size_t first = 0, last = 0;
    auto read = std::from_chars(at, end, first);
    if (read.ec != std::errc()) return std::nullopt;
    last = first;
    if (read.ptr != end && *read.ptr == '-') {
      read = std::from_chars(read.ptr + 1, end, last);
      if (read.ec != std::errc()) return std::nullopt;
    }
    if (last < first || last >= cores.size()) return std::nullopt;
    for (std::size_t core = first; core <= last; ++core) cores.set(core);
    at = read.ptr;
    if (at == end) break;
    if (*at++ != ',' || at == end) return std::nullopt;
  }
  return cores;
}

std::string to_string(const Cores& cores) {
  std::string text;
  for (std::size_t first = 0; first < cores.size(); ++first) {
    if (!cores[first]) continue;
    std::size_t last = first;
    while (last + 1 < cores.size() && cores[last + 1]) ++last;
    text += text.empty() ? "" : ",";
    text += first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
    first = last;
  }
  return text;
}

PciPlace place_of(const std::filesystem::path& sysfs, const std::string& address) {
  const fs::path device = sysfs / "bus/pci/devices" / address;
  PciPlace place{.node = number_in_file(device / "numa_node").value_or(-1)};
  if (place.node < 0) return place;
  place.cores = cores_in_file(device / "local_cpulist") & online_cores(sysfs);
  // A port of InfiniBand has an interface of IP, too; both are named, as NCCL's settings name either.
  for (const char* kind : {"class/infiniband", "class/net"}) {
    for (const fs::path& entry : entries_of(sysfs / kind)) {
      if (number_in_file(entry / "device/numa_node") == place.node) place.networks.push_back(entry.filename().string());
    }
  }
  return place;
}

std::vector<Cores> physical_cores(const std::filesystem::path& sysfs) {
  Cores left = online_cores(sysfs);
  std::vector<Cores> physical;
  const auto take = [&](const Cores& from) {
    for (std::size_t core = 0; core < left.size(); ++core) {
      if (!left[core] || !from[core]) continue;
      const std::string topology = fmt::format("devices/system/cpu/cpu{}/topology/thread_siblings_list", core);
      Cores one = cores_in_file(sysfs / topology) & left;
      one.set(core);
      left &= ~one;
      physical.push_back(one);
    }
  };
  for (const auto& [number, cores] : nodes_of(sysfs)) take(cores);
  take(left);  // of no node
  return physical;
}

Cores part_of(const Cores& cores, const std::vector<Cores>& physical, std::size_t index, std::size_t count) {
  std::vector<Cores> units;
  for (const Cores& core : physical) {
    if ((core & cores).any()) units.push_back(core & cores);
  }
  if (units.size() < count) {
    units.clear();
    for (std::size_t core = 0; core < cores.size(); ++core) {
      if (cores[core]) units.emplace_back().set(core);
    }
  }
  if (units.size() < count) return cores;
  Cores part;
  for (std::size_t i = index * units.size() / count; i < (index + 1) * units.size() / count; ++i) part |= units[i];
  return part;
}

CoreShare share_of(std::span<const CoreView> views, std::size_t rank) {
  const CoreView& own = views[rank];
  CoreShare share{.cores = own.given & own.wanted};
  share.is_away = share.cores.none() && own.given.any() && own.wanted.any();
  if (share.cores.none()) return share;
  share.count = 0;
  for (std::size_t i = 0; i < views.size(); ++i) {
    if (views[i].machine != own.machine || (views[i].given & views[i].wanted) != share.cores) continue;
    if (i < rank) ++share.index;
    ++share.count;
  }
  return share;
}

Cores given_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  Cores cores;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;  // the system has more cores than the set
  for (std::size_t core = 0; core < cores.size(); ++core) cores[core] = CPU_ISSET(core, &set);
  return cores;
}

CoreBinding::CoreBinding(const Cores& cores, bool whole_process)
    : before_(given_cores()), whole_process_(whole_process) {
  set_affinity(cores, whole_process_);
}

CoreBinding::~CoreBinding() {
  set_affinity(before_, whole_process_);
}

std::unique_ptr<CoreBinding> bind_rank(comm::World& world, const Cores& wanted, std::string_view gpu,
                                       const std::filesystem::path& sysfs) {
  const Cores given = given_cores();
  const std::vector<CoreView> views =
      comm::of_ranks(world, CoreView{allowed_cores(world.rank()).machine, given, wanted});
  if (world.rank() == 0) warn_of_ranks_away(views);
  const CoreShare share = share_of(views, static_cast<std::size_t>(world.rank()));
  if (share.cores.none()) return nullptr;
  const Cores part = part_of(share.cores, physical_cores(sysfs), share.index, share.count);
  if (part == given) return nullptr;
  Log(LogTopic::run, world.rank())
      .info("bound to cores {}{}{}", to_string(part), gpu.empty() ? "" : ", near its GPU at ", gpu);
  return std::make_unique<CoreBinding>(part, world.of_processes());
}

}  // namespace weft::execute
