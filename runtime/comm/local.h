// Ranks as threads of one process; collectives read the other ranks' buffers directly.
#pragma once

#include <memory>
#include <vector>

#include "runtime/comm/communicator.h"

namespace weft::comm {

/// `ranks` ≥ 1 worlds, by rank, each to be used by its rank's thread. Collectives take no lock, allocate nothing and
/// move at most about 1 MB a call of progress(). After abort() on one rank the others' progress() and blocking calls
/// throw PeerLost with its reason. Destroying a communicator while its collective is in flight counts as abort().
///
///   auto worlds = make_local_worlds(2);
///   std::thread other([&] { worlds[1]->barrier(); });
///   worlds[0]->barrier();
std::vector<std::unique_ptr<World>> make_local_worlds(int ranks);

}  // namespace weft::comm
