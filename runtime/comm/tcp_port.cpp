#include "runtime/comm/tcp_port.h"

#include <fmt/format.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace weft::comm {
namespace {

/// Stands before each message on the wire.
struct Head {
  std::uint32_t tag = 0, bytes = 0;
};

// A rank that is ahead sends messages before they are expected. They are kept until so many bytes are; then the
// connection isn't read, and the sender waits. More are only kept of a group's broadcasts, whose root waits for nobody.
constexpr std::size_t kMostEarlyBytes = std::size_t{64} << 20;
constexpr std::size_t kMostBytesAtOnce = std::size_t{1} << 20;  // read from a connection: about 200 µs

/// One direction or both to one other rank.
struct Link {
  struct Sending {
    Head head;
    std::span<const std::byte> bytes;
    std::size_t place = 0;
  };
  struct Receiving {
    std::uint32_t tag = 0;
    std::span<std::byte> bytes;
    std::size_t place = 0;
  };
  struct Early {
    std::uint32_t tag = 0;
    std::vector<std::byte> bytes;
    bool complete = false;
  };

  Socket socket;
  int rank = 0;  // of the world
  std::deque<Sending> out;
  std::size_t sent = 0;  // bytes of the first of `out`, its head included
  std::deque<Receiving> expected;
  std::deque<Early> early;
  std::size_t early_bytes = 0;
  Head head;
  std::size_t head_read = 0;
  bool in_message = false;           // the head is known
  std::span<std::byte> left;         // of the message that is being read
  std::optional<std::size_t> place;  // of the request that it completes; empty: it is the last of `early`
};

class TcpPort final : public MessagePort {
 public:
  TcpPort(std::shared_ptr<Control> control, int rank, const std::vector<int>& members, std::vector<Socket> connections)
      : control_(std::move(control)), rank_(rank), links_(members.size()) {
    for (std::size_t i = 0; i < members.size(); ++i) {
      links_[i].rank = members[i];
      links_[i].socket = std::move(connections[i]);
    }
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(links_.size()); }
  void reserve(std::size_t count) override { completed_.reserve(count); }

  void send(std::size_t place, int peer, int tag, std::span<const std::byte> bytes, std::string_view what) override {
    Link& link = links_[static_cast<std::size_t>(peer)];
    if (!link.socket.open()) control_->throw_lost(link.rank, std::string(what));
    link.out.push_back({{static_cast<std::uint32_t>(tag), static_cast<std::uint32_t>(bytes.size())}, bytes, place});
    if (link.out.size() == 1) send_some(link, what);
  }

  void receive(std::size_t place, int peer, int tag, std::span<std::byte> bytes, std::string_view what) override {
    Link& link = links_[static_cast<std::size_t>(peer)];
    const auto number = static_cast<std::uint32_t>(tag);
    const auto early = std::ranges::find(link.early, number, &Link::Early::tag);
    if (early == link.early.end()) {
      if (!link.socket.open()) control_->throw_lost(link.rank, std::string(what));
      link.expected.push_back({number, bytes, place});
      return;
    }
    expect_size(link, early->bytes.size(), bytes.size(), what);
    if (early->complete) {
      std::ranges::copy(early->bytes, bytes.begin());
      done_.push_back(static_cast<int>(place));
    } else {  // it is being read: the rest goes to its place
      const std::size_t read = early->bytes.size() - link.left.size();
      std::copy_n(early->bytes.begin(), read, bytes.begin());
      link.left = bytes.subspan(read);
      link.place = place;
    }
    link.early_bytes -= early->bytes.size();
    link.early.erase(early);
  }

  std::span<const int> completed(std::size_t, std::string_view what) override {
    control_->expect_peers();
    for (Link& link : links_) {
      if (!link.socket.open()) continue;
      send_some(link, what);
      receive_some(link, what);
    }
    completed_.swap(done_);
    done_.clear();
    return completed_;
  }

 private:
  void send_some(Link& link, std::string_view what) {
    while (!link.out.empty()) {
      const Link::Sending& first = link.out.front();
      const std::size_t length = sizeof(Head) + first.bytes.size();
      const std::optional<std::size_t> sent =
          link.sent < sizeof(Head) ? send_with_head(link, first)
                                   : link.socket.send_some(first.bytes.subspan(link.sent - sizeof(Head)));
      if (!sent) control_->throw_lost(link.rank, std::string(what));
      link.sent += *sent;
      if (link.sent < length) {
        if (*sent == 0) return;
        continue;
      }
      done_.push_back(static_cast<int>(first.place));
      link.out.pop_front();
      link.sent = 0;
    }
  }

  // Head and message by one call, so that they leave in one packet.
  static std::optional<std::size_t> send_with_head(const Link& link, const Link::Sending& first) {
    Head head = first.head;
    const auto head_left = std::as_writable_bytes(std::span(&head, 1)).subspan(link.sent);
    std::array<iovec, 2> parts = {
        iovec{head_left.data(), head_left.size()},
        iovec{const_cast<std::byte*>(first.bytes.data()), first.bytes.size()}};  // NOLINT: sendmsg() only reads it
    return link.socket.send_parts(parts);
  }

  void receive_some(Link& link, std::string_view what) {
    for (std::size_t total = 0; total < kMostBytesAtOnce;) {
      if (!link.in_message) {
        if (link.early_bytes > kMostEarlyBytes) return;
        const auto rest = std::as_writable_bytes(std::span(&link.head, 1)).subspan(link.head_read);
        const std::optional<std::size_t> received = link.socket.receive_some(rest);
        if (!received && link.head_read == 0 && link.expected.empty() && link.out.empty()) {
          link.socket.close();  // the rank has done its part, and ends while others still work
          return;
        }
        if (!received) control_->throw_lost(link.rank, std::string(what));
        link.head_read += *received;
        if (*received == 0) return;
        if (link.head_read < sizeof(Head)) continue;
        begin_message(link, what);
      }
      while (!link.left.empty()) {
        const std::optional<std::size_t> received = link.socket.receive_some(link.left);
        if (!received) control_->throw_lost(link.rank, std::string(what));
        if (*received == 0) return;
        total += *received;
        link.left = link.left.subspan(*received);
      }
      end_message(link);
    }
  }

  void begin_message(Link& link, std::string_view what) {
    link.in_message = true;
    link.head_read = 0;
    const auto expected = std::ranges::find(link.expected, link.head.tag, &Link::Receiving::tag);
    if (expected != link.expected.end()) {
      expect_size(link, link.head.bytes, expected->bytes.size(), what);
      link.left = expected->bytes;
      link.place = expected->place;
      link.expected.erase(expected);
      return;
    }
    Link::Early& early = link.early.emplace_back();
    early.tag = link.head.tag;
    early.bytes.resize(link.head.bytes);
    link.early_bytes += early.bytes.size();
    link.left = early.bytes;
    link.place.reset();
  }

  void end_message(Link& link) {
    link.in_message = false;
    if (link.place) {
      done_.push_back(static_cast<int>(*link.place));
    } else {
      link.early.back().complete = true;
    }
  }

  void expect_size(const Link& link, std::size_t sent, std::size_t expected, std::string_view what) const {
    if (sent == expected) return;
    throw RuntimeFault(fmt::format("{}: rank {} sent {} bytes where {} were expected: the ranks' collectives differ",
                                   what, link.rank, sent, expected));
  }

  std::shared_ptr<Control> control_;
  int rank_;
  std::vector<Link> links_;  // by rank of the group
  std::vector<int> done_, completed_;
};

}  // namespace

std::unique_ptr<MessagePort> make_tcp_port(std::shared_ptr<Control> control, int rank, const std::vector<int>& members,
                                           std::vector<Socket> connections) {
  return std::make_unique<TcpPort>(std::move(control), rank, members, std::move(connections));
}

}  // namespace weft::comm
