// Two ranks send each other the same number of bytes over a bare TCP connection: the least cost of any transport over
// TCP.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "runtime/comm/communicator.h"

namespace weft {

/// Nothing is summed, framed or acknowledged. One exchange at a time:
///
///   SocketExchange exchange(world, 16 << 20);  // connects ranks 0 and 1
///   exchange.start();
///   while (!exchange.progress()) compute();
class SocketExchange {
 public:
  /// Throws std::runtime_error if a system call fails.
  SocketExchange(comm::World& world, std::size_t bytes) : outgoing_(bytes, std::byte{1}), incoming_(bytes) {
    const bool listens = world.rank() == 0;
    Socket listener;
    sockaddr_in address = own_address();
    if (listens) {
      listener = Socket(::socket(AF_INET, SOCK_STREAM, 0));
      check(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), "bind");
      check(::listen(listener.get(), 1), "listen");
      socklen_t length = sizeof address;
      check(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length), "getsockname");
    }
    const auto all = world.all_gather(std::uint64_t{address.sin_addr.s_addr} << 16 | address.sin_port);
    if (listens) {
      connection_ = Socket(::accept(listener.get(), nullptr, nullptr));
    } else {
      connection_ = Socket(::socket(AF_INET, SOCK_STREAM, 0));
      address.sin_addr.s_addr = static_cast<std::uint32_t>(all[0] >> 16);
      address.sin_port = static_cast<std::uint16_t>(all[0]);
      check(::connect(connection_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), "connect");
    }
    const int on = 1;
    check(::setsockopt(connection_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), "setsockopt");
    check(::fcntl(connection_.get(), F_SETFL, O_NONBLOCK), "fcntl");
  }

  void start() { sent_ = received_ = 0; }

  /// Sends and receives as much as the connection allows now; returns true once everything is sent and received.
  bool progress() {
    const int socket = connection_.get();
    move(received_, [&](std::size_t at, std::size_t n) { return ::recv(socket, incoming_.data() + at, n, 0); });
    move(sent_, [&](std::size_t at, std::size_t n) { return ::send(socket, outgoing_.data() + at, n, MSG_NOSIGNAL); });
    return sent_ == outgoing_.size() && received_ == incoming_.size();
  }

 private:
  class Socket {
   public:
    Socket() = default;
    explicit Socket(int descriptor) : descriptor_(descriptor) { check(descriptor, "socket"); }
    Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
    Socket& operator=(Socket&& other) noexcept {
      std::swap(descriptor_, other.descriptor_);
      return *this;
    }
    ~Socket() {
      if (descriptor_ >= 0) ::close(descriptor_);
    }
    int get() const { return descriptor_; }

   private:
    int descriptor_ = -1;
  };

  static void check(int result, const char* call) {
    if (result < 0) throw std::runtime_error(std::string(call) + ": " + std::strerror(errno));
  }

  // The address of the first interface that isn't the loopback.
  static sockaddr_in own_address() {
    ifaddrs* list = nullptr;
    check(::getifaddrs(&list), "getifaddrs");
    const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
    for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
      if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET || (one->ifa_flags & IFF_LOOPBACK) != 0)
        continue;
      sockaddr_in address{};
      std::memcpy(&address, one->ifa_addr, sizeof address);
      return address;
    }
    throw std::runtime_error("no network interface with an IPv4 address");
  }

  template <class Call>
  void move(std::size_t& done, const Call& call) {
    constexpr std::size_t kMost = 1 << 20;
    while (done < outgoing_.size()) {
      const std::size_t wanted = std::min(kMost, outgoing_.size() - done);
      const ssize_t moved = call(done, wanted);
      if (moved == 0) throw std::runtime_error("the peer closed the connection");
      if (moved < 0) {
        check(errno == EAGAIN || errno == EINTR ? 0 : -1, "send or recv");
        return;
      }
      done += static_cast<std::size_t>(moved);
      if (static_cast<std::size_t>(moved) < wanted) return;
    }
  }

  Socket connection_;
  std::vector<std::byte> outgoing_, incoming_;
  std::size_t sent_ = 0, received_ = 0;
};

}  // namespace weft
