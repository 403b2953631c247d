// Messages between the ranks of a group over a TCP connection for each pair.
#pragma once

#include <memory>
#include <vector>

#include "runtime/comm/control.h"
#include "runtime/comm/message_communicator.h"

namespace weft::comm {

/// `members`: the group's ranks of the world. `connections`: one for each of them, the own one closed.
std::unique_ptr<MessagePort> make_tcp_port(std::shared_ptr<Control> control, int rank, const std::vector<int>& members,
                                           std::vector<Socket> connections);

}  // namespace weft::comm
