#include "train/run/run_devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace weft::train {

RunDevices find_devices(comm::World& world, const execute::ExecutorPlace& place, std::size_t gpus) {
  RunDevices run;
  run.communicator = place.device.empty() ? world.name() : place.communicator;
  const std::vector<std::uint64_t> identities = world.all_gather(place.identity);
  const std::vector<std::string> names = comm::of_ranks(world, place.device);
  if (place.device.empty()) return run;
  std::vector<std::uint64_t> found;
  for (std::size_t r = 0; r < names.size(); ++r) {
    const auto known = std::ranges::find(found, identities[r]);
    const auto index = static_cast<std::size_t>(known - found.begin());
    if (known == found.end()) {
      found.push_back(identities[r]);
      run.devices.push_back({names[r], {}});
    }
    run.devices[index].ranks.push_back(static_cast<int>(r));
  }
  const bool share = run.devices.size() < names.size();
  if (world.name() == "local" && share && gpus > run.devices.size()) {
    run.idle = static_cast<int>(gpus - run.devices.size());
  }
  return run;
}

std::string to_string(const RunDevices& run) {
  std::vector<std::pair<std::string, int>> counts;  // of devices of one name
  std::size_t ranks = 0;
  for (const RunDevice& device : run.devices) {
    ranks += device.ranks.size();
    const auto known = std::ranges::find(counts, device.name, &std::pair<std::string, int>::first);
    if (known == counts.end()) {
      counts.emplace_back(device.name, 1);
    } else {
      ++known->second;
    }
  }
  std::string text;
  for (const auto& [name, count] : counts) {
    text += text.empty() ? "" : ", ";
    text += count == 1 ? name : fmt::format("{} × {}", count, name);
  }
  text += fmt::format(", {} rank{}; communicator {}", ranks, ranks == 1 ? "" : "s", run.communicator);
  if (run.idle > 0) text += fmt::format("; {} other GPU{} idle", run.idle, run.idle == 1 ? " is" : "s are");
  return text;
}

JsonArray to_json(const RunDevices& run) {
  JsonArray devices;
  for (const RunDevice& device : run.devices) {
    devices.add(JsonObject().add("name", device.name).add("ranks", device.ranks));
  }
  return devices;
}

}  // namespace weft::train
