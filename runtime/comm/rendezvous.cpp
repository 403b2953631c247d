#include "runtime/comm/rendezvous.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "base/buffer.h"
#include "base/error.h"
#include "base/log.h"
#include "base/printable.h"

namespace weft::comm {
namespace {

constexpr int kMostRanks = 1 << 20;
constexpr std::uint32_t kMostVerdict = 1U << 28;
constexpr char kAllHere = 'y', kRefused = 'n';

UserError malformed(std::string_view what) {
  return {fmt::format("{} that no Weft of this version sends", what), "one weft on all ranks",
          "copy one build to every machine, and start that"};
}

/// The parts of a text between separators.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0;;) {
    const std::size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

int number_in(std::string_view text, int least, int most, std::string_view what) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < least || number > most) {
    throw malformed(what);
  }
  return number;
}

/// A text without the separators, and with nothing that could change a terminal.
std::string plain(std::string_view text) {
  std::string result(text.substr(0, 200));
  std::ranges::replace_if(
      result, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 127; }, ' ');
  return result;
}

/// The boot of this machine and the network that this process sees: a container with a network of its own is a node.
std::string own_node() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  std::error_code none;
  return boot + "/" + std::filesystem::read_symlink("/proc/self/ns/net", none).string();
}

Introduction own_introduction(const TcpLaunch& launch) {
  return {launch.rank,        launch.ranks,      launch.rank_on_node, static_cast<int>(::getpid()),
          plain(host_name()), plain(own_node()), plain(launch.run)};
}

std::string place_of(const Introduction& one) {
  return fmt::format("process {} on {}", one.process, one.host);
}

bool send_verdict(const Socket& socket, char verdict, const std::string& text, Deadline deadline) {
  std::array<std::byte, 5> head{static_cast<std::byte>(verdict)};
  for (std::size_t i = 1; i < head.size(); ++i) head[i] = static_cast<std::byte>(text.size() >> (8 * (i - 1)));
  return socket.send_all(head, deadline) && socket.send_all(std::as_bytes(std::span(text)), deadline);
}

/// The text of a UserError that all ranks throw.
struct Refusal {
  std::string found, expected, fix;
};

/// Rank 0's side.
class Host {
 public:
  Host(const TcpLaunch& launch, const TcpSettings& settings)
      : launch_(launch), settings_(settings), guests_(static_cast<std::size_t>(launch.ranks)) {
    guests_[0].introduction = own_introduction(launch);
    guests_[0].here = true;
  }

  Meeting meet() {
    const Deadline deadline = seconds_from_now(settings_.peer_timeout);
    const std::vector<Address> addresses = addresses_of_rank_0(launch_, settings_);
    Door door(listen(addresses), settings_.token, warn_of_strangers(0, launch_.port));
    Deadline told = seconds_from_now(kSecondsToNote);
    while (!missing().empty()) {
      std::optional<Guest> guest = door.next(std::min(deadline, told));
      if (guest) receive(std::move(*guest));
      const auto now = std::chrono::steady_clock::now();
      if (missing().empty() || guest) continue;
      if (now >= deadline) refuse(late());
      if (now >= told) {
        Log(LogTopic::comm, 0)
            .warning("waiting for {} of {} ranks: {}", std::ssize(missing()), launch_.ranks, join(missing()));
        told = deadline;
      }
    }
    return welcome();
  }

 private:
  static constexpr double kSecondsToNote = 15;
  struct Seat {
    bool here = false;
    Introduction introduction;
    Socket socket;
  };

  Socket listen(const std::vector<Address>& addresses) {
    const Address at = settings_.beyond_loopback ? Address::any(addresses.front(), launch_.port) : addresses.front();
    try {
      return Socket::listening(at);
    } catch (const std::system_error& error) {
      if (error.code() == std::errc::address_in_use) refuse_second_host(addresses);
      throw UserError(fmt::format("rank 0 can't listen at {}: {}", at.text(), error.code().message()),
                      "a port of this machine that nothing else uses: another run, or a second rank 0, may have it",
                      "give each process its own RANK, and this run another MASTER_PORT");
    }
  }

  /// Tells the rank 0 that listens there, if it is one of this run, so that its ranks end too.
  void refuse_second_host(const std::vector<Address>& addresses) {
    try {
      const Call call{addresses, settings_.token, to_text(guests_[0].introduction), name_of_rank_0()};
      const Socket other = call_at(call, seconds_from_now(std::min(2.0, settings_.peer_timeout)));
    } catch (const UserError&) {
      return;  // another program has the port
    }
    throw UserError(fmt::format("two processes were started as rank 0: this one and the one that listens at {}",
                                addresses.front().text()),
                    "one process for each rank", "give each process its own RANK, from 0 to WORLD_SIZE − 1");
  }

  std::string name_of_rank_0() const { return fmt::format("rank 0 at {}:{}", launch_.host, launch_.port); }

  std::vector<std::string> missing() const {
    std::vector<std::string> ranks;
    for (std::size_t r = 0; r < guests_.size(); ++r) {
      if (!guests_[r].here) ranks.push_back(fmt::format("{}", r));
    }
    return ranks;
  }

  void receive(Guest guest) {
    Introduction one;
    try {
      one = parse_introduction(guest.words);
    } catch (const UserError&) {
      refuse({"a process of another version of Weft came", "one weft on all ranks",
              "copy one build to every machine, and start that"},
             &guest.socket);
    }
    if (one.run != guests_[0].introduction.run) {
      send_verdict(guest.socket, kRefused,
                   UserError(fmt::format("rank 0 at port {} belongs to another run", launch_.port),
                             "a port of its own for each run", "set another MASTER_PORT")
                       .what(),
                   seconds_from_now(1));
      Log(LogTopic::comm, 0).warning("{} of another run was turned away", place_of(one));
      return;
    }
    if (one.ranks != launch_.ranks) {
      refuse({fmt::format("rank {} ({}) was started for {} ranks, rank 0 for {}", one.rank, place_of(one), one.ranks,
                          launch_.ranks),
              "one number of ranks", "give all processes the same WORLD_SIZE"},
             &guest.socket);
    }
    Seat& seat = guests_[static_cast<std::size_t>(one.rank)];
    if (seat.here) {
      refuse({fmt::format("two processes were started as rank {}: {} and {}", one.rank, place_of(seat.introduction),
                          place_of(one)),
              "one process for each rank", "give each process its own RANK, from 0 to WORLD_SIZE − 1"},
             &guest.socket);
    }
    seat.here = true;
    seat.introduction = std::move(one);
    seat.socket = std::move(guest.socket);
  }

  Refusal late() const {
    std::vector<std::string> here;
    for (const Seat& seat : guests_) {
      if (seat.here) here.push_back(fmt::format("rank {} on {}", seat.introduction.rank, seat.introduction.host));
    }
    const std::vector<std::string> ranks = missing();
    return {fmt::format("rank{} {} of {} didn't come within {:g} s; here are {}", ranks.size() == 1 ? "" : "s",
                        join(ranks), launch_.ranks, settings_.peer_timeout, join(here)),
            "all ranks, started within the limit",
            "look for errors of the missing ones, check their MASTER_ADDR and MASTER_PORT, or set --peer-timeout"};
  }

  /// Ends the meeting for all that are here, and for `newest`.
  [[noreturn]] void refuse(const Refusal& refusal, const Socket* newest = nullptr) {
    const UserError error(refusal.found, refusal.expected, refusal.fix);
    const Deadline soon = seconds_from_now(2);
    for (const Seat& seat : guests_) {
      if (seat.socket.open()) send_verdict(seat.socket, kRefused, error.what(), soon);
    }
    if (newest != nullptr) send_verdict(*newest, kRefused, error.what(), soon);
    throw error;
  }

  Meeting welcome() {
    Meeting meeting;
    for (const Seat& seat : guests_) {
      meeting.peers.push_back({seat.introduction.host, seat.introduction.node,
                               seat.socket.open() ? seat.socket.peer().host() : "", seat.introduction.process,
                               seat.introduction.rank_on_node});
    }
    const std::string table = to_text(meeting.peers);
    const Deadline soon = seconds_from_now(settings_.peer_timeout);
    for (Seat& seat : guests_) {
      if (seat.socket.open()) send_verdict(seat.socket, kAllHere, table, soon);  // a lost rank is noticed by Control
      meeting.connections.push_back(std::move(seat.socket));
    }
    return meeting;
  }

  const TcpLaunch& launch_;
  const TcpSettings& settings_;
  std::vector<Seat> guests_;  // by rank
};

/// The side of all other ranks.
Meeting join_host(const TcpLaunch& launch, const TcpSettings& settings) {
  const std::string whom = fmt::format("rank 0 at {}:{}", launch.host, launch.port);
  Socket socket =
      call_at({addresses_of_rank_0(launch, settings), settings.token, to_text(own_introduction(launch)), whom},
              seconds_from_now(settings.peer_timeout));
  // Rank 0 was there before, so that its limit passes first: it knows who is missing.
  const Deadline deadline = seconds_from_now(settings.peer_timeout + 2);
  std::array<std::byte, 5> head{};
  std::string text;
  const bool received = [&] {
    if (!socket.receive_all(head, deadline)) return false;
    std::uint32_t length = 0;
    for (std::size_t i = 1; i < head.size(); ++i) length |= std::to_integer<std::uint32_t>(head[i]) << (8 * (i - 1));
    if (length > kMostVerdict) throw malformed("an answer of rank 0");
    text.resize(length);
    return socket.receive_all(std::as_writable_bytes(std::span(text)), deadline);
  }();
  if (!received) {
    throw UserError(fmt::format("{} ended the connection before all ranks were there", whom), "a rank 0 that goes on",
                    "look at its error");
  }
  if (head[0] != static_cast<std::byte>(kAllHere)) throw UserError(text, "", "");
  Meeting meeting{parse_peers(text), {}};
  if (std::ssize(meeting.peers) != launch.ranks) throw malformed("a list of ranks");
  meeting.connections.push_back(std::move(socket));
  return meeting;
}

}  // namespace

std::string to_text(const Introduction& one) {
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}", one.rank, one.ranks, one.rank_on_node, one.process, one.host,
                     one.node, one.run);
}

Introduction parse_introduction(std::string_view text) {
  constexpr std::string_view kWhat = "an introduction";
  const auto parts = split(text, '\n');
  if (parts.size() != 7 || plain(parts[4]) != parts[4] || plain(parts[5]) != parts[5] || plain(parts[6]) != parts[6]) {
    throw malformed(kWhat);
  }
  Introduction one;
  one.ranks = number_in(parts[1], 1, kMostRanks, kWhat);
  one.rank = number_in(parts[0], 0, one.ranks - 1, kWhat);
  one.rank_on_node = number_in(parts[2], -1, kMostRanks, kWhat);
  one.process = number_in(parts[3], 0, 1 << 30, kWhat);
  one.host = parts[4];
  one.node = parts[5];
  one.run = parts[6];
  return one;
}

std::string to_text(const std::vector<Peer>& peers) {
  std::string text;
  for (const Peer& peer : peers) {
    text += fmt::format("{}{}\t{}\t{}\t{}\t{}", text.empty() ? "" : "\n", peer.host, peer.node, peer.address,
                        peer.process, peer.rank_on_node);
  }
  return text;
}

std::vector<Peer> parse_peers(std::string_view text) {
  constexpr std::string_view kWhat = "a list of ranks";
  std::vector<Peer> peers;
  for (const std::string_view line : split(text, '\n')) {
    const auto parts = split(line, '\t');
    if (parts.size() != 5) throw malformed(kWhat);
    Peer& peer = peers.emplace_back();
    peer.host = parts[0];
    peer.node = parts[1];
    peer.address = parts[2];
    peer.process = number_in(parts[3], 0, 1 << 30, kWhat);
    peer.rank_on_node = number_in(parts[4], -1, kMostRanks, kWhat);
    if (plain(peer.host) != peer.host || plain(peer.node) != peer.node || plain(peer.address) != peer.address) {
      throw malformed(kWhat);
    }
  }
  return peers;
}

std::string name_of(int rank, const Peer& peer) {
  return fmt::format("rank {} (process {} on {})", rank, peer.process, peer.host);
}

std::vector<Address> addresses_of_rank_0(const TcpLaunch& launch, const TcpSettings& settings) {
  std::vector<Address> addresses = Address::of(launch.host, launch.port);
  if (addresses.empty()) {
    throw UserError(fmt::format("the name {} of rank 0's machine isn't known here", launch.host),
                    "a name or an address that all machines know", "set MASTER_ADDR to rank 0's address");
  }
  for (const Address& address : addresses) {
    if (settings.beyond_loopback || address.is_loopback()) continue;
    throw UserError(
        fmt::format("rank 0 is at {} ({}), which other machines can reach", launch.host, address.host()),
        "an address of this machine alone, as network = loopback says",
        "--network any, with one --token-file on all machines; or MASTER_ADDR=127.0.0.1 for ranks of one machine");
  }
  return addresses;
}

Door::TurnedAway warn_of_strangers(int rank, int port) {
  constexpr int kMostWarnings = 10;
  return [rank, port, count = std::make_shared<int>(0)](const std::string& from, const std::string& why) {
    if (++*count > kMostWarnings) return;
    Log(LogTopic::comm, rank)
        .warning("a stranger at {} was turned away from port {}: {}{}", from, port, why,
                 *count == kMostWarnings ? "; further ones aren't told" : "");
  };
}

Meeting meet(const TcpLaunch& launch, const TcpSettings& settings) {
  return launch.rank == 0 ? Host(launch, settings).meet() : join_host(launch, settings);
}

}  // namespace weft::comm
