// One team for the rank threads of a local world.
#include <cstdint>
#include <exception>

#include "runtime/device/device_executor.h"

namespace weft {

std::shared_ptr<DeviceTeam> make_team(World& world, const std::function<std::shared_ptr<DeviceTeam>()>& make) {
  // Ranks of one process: the first makes the team and hands its address round.
  std::shared_ptr<DeviceTeam> own;
  std::exception_ptr failure;
  if (world.rank() == 0) {
    try {
      own = make();
    } catch (...) {
      failure = std::current_exception();
    }
  }
  const auto address = reinterpret_cast<std::uintptr_t>(world.rank() == 0 && own != nullptr ? &own : nullptr);
  const auto* const shared = reinterpret_cast<const std::shared_ptr<DeviceTeam>*>(
      static_cast<std::uintptr_t>(world.all_gather(static_cast<std::uint64_t>(address)).front()));
  if (failure != nullptr) std::rethrow_exception(failure);
  if (shared == nullptr) throw PeerLost("rank 0 has no device");
  std::shared_ptr<DeviceTeam> team = *shared;
  world.barrier();  // rank 0's stays until all have it
  return team;
}

}  // namespace weft
