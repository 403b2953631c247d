// One team for the rank threads of a local world.
#include <cstddef>
#include <cstring>
#include <exception>
#include <vector>

#include "runtime/execute/device/device_executor.h"

namespace weft::execute {

std::shared_ptr<DeviceTeam> make_team(comm::World& world, const std::function<std::shared_ptr<DeviceTeam>()>& make) {
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
  const void* shared = own != nullptr ? &own : nullptr;
  std::vector<std::byte> address(sizeof(void*));
  std::memcpy(address.data(), &shared, address.size());
  world.broadcast(address, 0);
  std::memcpy(&shared, address.data(), sizeof(void*));
  if (failure != nullptr) std::rethrow_exception(failure);
  if (shared == nullptr) throw comm::PeerLost("rank 0 has no device");
  std::shared_ptr<DeviceTeam> team = *static_cast<const std::shared_ptr<DeviceTeam>*>(shared);
  world.barrier();  // rank 0's stays until all have it
  return team;
}

}  // namespace weft::execute
