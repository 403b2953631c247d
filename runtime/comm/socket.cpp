#include "runtime/comm/socket.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <system_error>

namespace weft::comm {
namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void throw_errno(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

bool would_block(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

// Waits until the socket is ready; false after the deadline.
bool wait_for(int descriptor, short events, Deadline deadline) {
  for (;;) {
    pollfd one{descriptor, events, 0};
    if (::poll(&one, 1, milliseconds_until(deadline)) > 0) return true;
    if (Clock::now() >= deadline) return false;
  }
}

void set(int descriptor, int level, int name, int value) {
  ::setsockopt(descriptor, level, name, &value, sizeof value);
}

}  // namespace

Deadline seconds_from_now(double seconds) {
  constexpr double kLongest = 1e9;
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::clamp(seconds, 0.0, kLongest)));
}

int milliseconds_until(Deadline deadline, int most) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, most));
}

std::vector<Address> Address::of(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return {};
  std::vector<Address> addresses;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    if (each->ai_family != AF_INET && each->ai_family != AF_INET6) continue;
    Address address;
    std::memcpy(&address.storage_, each->ai_addr, each->ai_addrlen);
    address.length_ = each->ai_addrlen;
    addresses.push_back(address.with_port(port));
  }
  ::freeaddrinfo(found);
  return addresses;
}

Address Address::any(const Address& like, int port) {
  Address address = like;
  if (like.storage_.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&address.storage_)->sin6_addr = in6addr_any;
  } else {
    reinterpret_cast<sockaddr_in*>(&address.storage_)->sin_addr.s_addr = htonl(INADDR_ANY);
  }
  return address.with_port(port);
}

Address Address::loopback(const Address& like, int port) {
  return of(like.storage_.ss_family == AF_INET6 ? "::1" : "127.0.0.1", port).front();
}

int Address::port() const {
  return storage_.ss_family == AF_INET6 ? ntohs(reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_port)
                                        : ntohs(reinterpret_cast<const sockaddr_in*>(&storage_)->sin_port);
}

bool Address::is_loopback() const {
  if (storage_.ss_family == AF_INET6) {
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_addr) != 0;
  }
  return ntohl(reinterpret_cast<const sockaddr_in*>(&storage_)->sin_addr.s_addr) >> 24 == 127;
}

std::string Address::host() const {
  std::array<char, NI_MAXHOST> text{};
  if (::getnameinfo(get(), length_, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) return "unknown";
  return text.data();
}

std::string Address::text() const {
  const bool brackets = storage_.ss_family == AF_INET6;
  return fmt::format("{}{}{}:{}", brackets ? "[" : "", host(), brackets ? "]" : "", port());
}

Address Address::with_port(int port) const {
  Address other = *this;
  const auto number = htons(static_cast<std::uint16_t>(port));
  if (storage_.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&other.storage_)->sin6_port = number;
  } else {
    reinterpret_cast<sockaddr_in*>(&other.storage_)->sin_port = number;
  }
  return other;
}

Socket Socket::listening(const Address& address) {
  Socket socket(::socket(address.get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.open()) throw_errno("socket");
  set(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);  // connections of an earlier run may still be closing
  if (::bind(socket.get(), address.get(), address.length()) != 0) throw_errno("bind");
  if (::listen(socket.get(), SOMAXCONN) != 0) throw_errno("listen");
  return socket;
}

std::optional<Socket> Socket::connected(const Address& address, Deadline deadline, std::string& why) {
  const auto failed = [&](int error) {
    why = std::strerror(error);
    return std::nullopt;
  };
  Socket socket(::socket(address.get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.open()) return failed(errno);
  if (::connect(socket.get(), address.get(), address.length()) != 0) {
    if (errno != EINPROGRESS) return failed(errno);
    if (!wait_for(socket.get(), POLLOUT, deadline)) return failed(ETIMEDOUT);
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return failed(error);
  }
  // A socket that tries a free port of its own machine again and again connects to itself in the end.
  if (socket.local() == socket.peer()) return failed(ECONNREFUSED);
  return socket;
}

Socket Socket::accepted() const {
  return Socket(::accept4(descriptor_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

void Socket::close() {
  if (open()) ::close(std::exchange(descriptor_, -1));
}

Address Socket::local() const {
  Address address;
  address.length_ = sizeof address.storage_;
  ::getsockname(descriptor_, reinterpret_cast<sockaddr*>(&address.storage_), &address.length_);
  return address;
}

Address Socket::peer() const {
  Address address;
  address.length_ = sizeof address.storage_;
  ::getpeername(descriptor_, reinterpret_cast<sockaddr*>(&address.storage_), &address.length_);
  return address;
}

void Socket::prepare(double seconds) const {
  constexpr int kProbes = 4;
  const int interval = std::max(1, static_cast<int>(std::min(seconds, 1e5) / (kProbes + 1)));
  set(descriptor_, IPPROTO_TCP, TCP_NODELAY, 1);
  set(descriptor_, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(descriptor_, IPPROTO_TCP, TCP_KEEPIDLE, interval);
  set(descriptor_, IPPROTO_TCP, TCP_KEEPINTVL, interval);
  set(descriptor_, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  set(descriptor_, IPPROTO_TCP, TCP_USER_TIMEOUT, (kProbes + 1) * interval * 1000);
}

std::optional<std::size_t> Socket::send_some(std::span<const std::byte> bytes) const {
  const ssize_t sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent >= 0) return static_cast<std::size_t>(sent);
  return would_block(errno) ? std::optional<std::size_t>(0) : std::nullopt;
}

std::optional<std::size_t> Socket::send_parts(std::span<iovec> parts) const {
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  const ssize_t sent = ::sendmsg(descriptor_, &message, MSG_NOSIGNAL);
  if (sent >= 0) return static_cast<std::size_t>(sent);
  return would_block(errno) ? std::optional<std::size_t>(0) : std::nullopt;
}

std::optional<std::size_t> Socket::receive_some(std::span<std::byte> bytes) const {
  const ssize_t received = ::recv(descriptor_, bytes.data(), bytes.size(), 0);
  if (received > 0) return static_cast<std::size_t>(received);
  return received < 0 && would_block(errno) ? std::optional<std::size_t>(0) : std::nullopt;
}

bool Socket::send_all(std::span<const std::byte> bytes, Deadline deadline) const {
  while (!bytes.empty()) {
    const std::optional<std::size_t> sent = send_some(bytes);
    if (!sent) return false;
    bytes = bytes.subspan(*sent);
    if (*sent == 0 && !wait_for(descriptor_, POLLOUT, deadline)) return false;
  }
  return true;
}

bool Socket::receive_all(std::span<std::byte> bytes, Deadline deadline) const {
  while (!bytes.empty()) {
    const std::optional<std::size_t> received = receive_some(bytes);
    if (!received) return false;
    bytes = bytes.subspan(*received);
    if (*received == 0 && !wait_for(descriptor_, POLLIN, deadline)) return false;
  }
  return true;
}

}  // namespace weft::comm
