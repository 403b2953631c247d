// The world over TCP: places of ranks on nodes, groups and their connections, and the end of a run.
#include "runtime/comm/tcp.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "runtime/comm/control.h"
#include "runtime/comm/tcp_port.h"

namespace weft::comm {
namespace {

/// A rank's place among the ranks of its node, which the launcher may know better: it gives GPUs by it.
std::pair<int, int> place_on_node(const std::vector<Peer>& peers, int rank) {
  std::vector<int> on_node, told;
  for (std::size_t r = 0; r < peers.size(); ++r) {
    if (peers[r].node != peers[static_cast<std::size_t>(rank)].node) continue;
    on_node.push_back(static_cast<int>(r));
    told.push_back(peers[r].rank_on_node);
  }
  std::ranges::sort(told);
  bool all_told = true;
  for (std::size_t i = 0; i < told.size(); ++i) all_told = all_told && told[i] == static_cast<int>(i);
  const auto in_order = std::ranges::find(on_node, rank) - on_node.begin();
  return {all_told ? peers[static_cast<std::size_t>(rank)].rank_on_node : static_cast<int>(in_order),
          static_cast<int>(on_node.size())};
}

/// What a rank says when a group is made.
struct GroupPlace {
  std::int64_t color = 0;
  std::int64_t port = 0;  // where its group's later ranks connect
};

class WorldOverTcp final : public TcpWorld {
 public:
  WorldOverTcp(const TcpLaunch& launch, TcpSettings settings, Meeting meeting)
      : rank_(launch.rank),
        size_(launch.ranks),
        settings_(std::move(settings)),
        on_node_(place_on_node(meeting.peers, launch.rank)) {
    for (const Socket& connection : meeting.connections) {
      if (connection.open()) connection.prepare(settings_.peer_timeout);
    }
    // Groups are made at addresses of the same kind.
    if (rank_ == 0) own_address_ = addresses_of_rank_0(launch, settings_).front();
    if (rank_ != 0) own_address_ = meeting.connections.front().local();
    control_ = std::make_shared<Control>(rank_, std::move(meeting));
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string name() const override { return "tcp"; }
  bool of_processes() const override { return true; }
  int ranks_on_node() const override { return on_node_.second; }
  int rank_on_node() const override { return on_node_.first; }

  std::unique_ptr<Communicator> split(int color) override {
    const std::int64_t number = splits_++;
    const Address any_port =
        settings_.beyond_loopback ? Address::any(own_address_, 0) : Address::loopback(own_address_, 0);
    Socket listener = Socket::listening(any_port);
    const int port = listener.local().port();
    const std::vector<GroupPlace> all = of_ranks(*this, GroupPlace{color, port});
    std::vector<int> members;
    for (int r = 0; r < size_; ++r) {
      if (all[static_cast<std::size_t>(r)].color == color) members.push_back(r);
    }
    Door door(std::move(listener), settings_.token, warn_of_strangers(rank_, port));
    std::vector<Socket> connections(members.size());
    connect_to_earlier(all, members, number, connections);
    receive_later(members, number, door, connections);
    for (const Socket& connection : connections) {
      if (connection.open()) connection.prepare(settings_.peer_timeout);
    }
    const int own = static_cast<int>(std::ranges::find(members, rank_) - members.begin());
    return make_message_communicator(make_tcp_port(control_, own, members, std::move(connections)),
                                     message_sizes(static_cast<int>(members.size()), /*shared_memory=*/false));
  }

  void barrier() override { control_->exchange({}); }
  std::vector<std::vector<std::byte>> all_gather_bytes(std::span<const std::byte> bytes) override {
    return control_->exchange(bytes);
  }
  void expect_peers() override { control_->expect_peers(); }
  void abort(const std::string& reason, int exit_code) override { control_->tell_failure(reason, exit_code); }

  void leave() override { control_->exchange({}, /*last=*/true); }

  bool ended(RunEnd& end) override {
    const std::optional<RunEnd> found = control_->end_within(0);
    if (found) end = *found;
    return found.has_value();
  }

  RunEnd give_up(const std::string& reason, int exit_code) override {
    constexpr double kSecondsForTheEnd = 4;  // more than ranks have to throw the same error
    control_->tell_failure(reason, exit_code);
    return control_->end_within(kSecondsForTheEnd).value_or(RunEnd{rank_, exit_code, true, reason});
  }

  bool speaks_for(const RunEnd& end) const override {
    const std::vector<Peer>& peers = control_->peers();
    const std::string& own_node = peers[static_cast<std::size_t>(rank_)].node;
    if (end.reported && end.rank >= 0 && peers[static_cast<std::size_t>(end.rank)].node == own_node) return false;
    for (int r = 0; r < rank_; ++r) {
      if (r != end.rank && peers[static_cast<std::size_t>(r)].node == own_node) return false;
    }
    return true;
  }

 private:
  static std::string words_of(std::int64_t split, int rank) { return fmt::format("{} {}", split, rank); }
  std::string name_of_rank(int rank) const { return name_of(rank, control_->peers()[static_cast<std::size_t>(rank)]); }

  /// Where this rank reaches another one. A rank on rank 0's node may have reached it by an address that only exists
  /// there, so that others take the one by which they reached rank 0.
  std::vector<Address> addresses_of(int rank, int port) const {
    const std::vector<Peer>& peers = control_->peers();
    const auto node = [&](int r) { return peers[static_cast<std::size_t>(r)].node; };
    if (!settings_.beyond_loopback || node(rank) == node(rank_)) return {Address::loopback(own_address_, port)};
    if (node(rank) == node(0)) return {control_->address_of_rank_0()->with_port(port)};
    return Address::of(peers[static_cast<std::size_t>(rank)].address, port);
  }

  void connect_to_earlier(const std::vector<GroupPlace>& all, const std::vector<int>& members, std::int64_t number,
                          std::vector<Socket>& connections) const {
    for (std::size_t i = 0; members[i] != rank_; ++i) {
      const int port = static_cast<int>(all[static_cast<std::size_t>(members[i])].port);
      const Call call{addresses_of(members[i], port), settings_.token, words_of(number, rank_),
                      name_of_rank(members[i]), [this] { control_->expect_peers(); }};
      connections[i] = call_at(call, seconds_from_now(settings_.peer_timeout));
    }
  }

  void receive_later(const std::vector<int>& members, std::int64_t number, Door& door,
                     std::vector<Socket>& connections) const {
    const Deadline deadline = seconds_from_now(settings_.peer_timeout);
    const auto own = std::ranges::find(members, rank_);
    const auto missing = [&] {
      for (auto i = own + 1; i < members.end(); ++i) {
        if (!connections[static_cast<std::size_t>(i - members.begin())].open()) return i;
      }
      return members.end();
    };
    while (missing() != members.end()) {
      control_->expect_peers();
      if (std::optional<Guest> guest = door.next(std::min(deadline, seconds_from_now(0.2)))) {
        for (auto i = own + 1; i < members.end(); ++i) {
          if (guest->words != words_of(number, *i)) continue;
          connections[static_cast<std::size_t>(i - members.begin())] = std::move(guest->socket);
          break;
        }
      } else if (std::chrono::steady_clock::now() >= deadline) {
        throw PeerLost(
            fmt::format("{} didn't connect within {:g} s", name_of_rank(*missing()), settings_.peer_timeout));
      }
    }
  }

  int rank_, size_;
  TcpSettings settings_;
  std::pair<int, int> on_node_;  // the place and the number of ranks
  Address own_address_;
  std::shared_ptr<Control> control_;
  std::int64_t splits_ = 0;
};

}  // namespace

std::unique_ptr<TcpWorld> make_tcp_world(const TcpLaunch& launch, const TcpSettings& settings) {
  return std::make_unique<WorldOverTcp>(launch, settings, meet(launch, settings));
}

}  // namespace weft::comm
