// The meeting of all ranks at rank 0, which checks that they belong together and tells each who the others are.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/comm/greeting.h"
#include "runtime/comm/tcp.h"

namespace weft::comm {

/// What a rank says about itself when it comes.
struct Introduction {
  int rank = 0, ranks = 1;
  int rank_on_node = -1;
  int process = 0;
  std::string host;  // for messages
  std::string node;  // equal for processes that reach each other by loopback
  std::string run;   // see TcpLaunch
  friend bool operator==(const Introduction&, const Introduction&) = default;
};

std::string to_text(const Introduction& introduction);
/// Throws UserError.
Introduction parse_introduction(std::string_view text);

/// A rank as the others know it.
struct Peer {
  std::string host, node, address;  // the address as rank 0 sees it; of rank 0: ""
  int process = 0;
  int rank_on_node = -1;
  friend bool operator==(const Peer&, const Peer&) = default;
};

std::string to_text(const std::vector<Peer>& peers);
/// Throws UserError.
std::vector<Peer> parse_peers(std::string_view text);

/// "rank 3 (process 812 on loom)".
std::string name_of(int rank, const Peer& peer);

struct Meeting {
  std::vector<Peer> peers;          // by rank
  std::vector<Socket> connections;  // on rank 0 by rank, its own closed; else one, to rank 0
};

/// Throws UserError on all ranks if one of them doesn't belong to the run, and after the limit if one is missing.
Meeting meet(const TcpLaunch& launch, const TcpSettings& settings);

/// The addresses of rank 0. Throws UserError for one that isn't loopback, unless the settings allow it.
std::vector<Address> addresses_of_rank_0(const TcpLaunch& launch, const TcpSettings& settings);

/// Warns of a stranger at a port of this rank.
Door::TurnedAway warn_of_strangers(int rank, int port);

}  // namespace weft::comm
