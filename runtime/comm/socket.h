// Addresses and sockets of TCP. Sockets don't block; functions that wait have a deadline.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace weft::comm {

using Deadline = std::chrono::steady_clock::time_point;

Deadline seconds_from_now(double seconds);
/// For poll(): 0 after the deadline, at most `most`.
int milliseconds_until(Deadline deadline, int most = 1000);

/// An IPv4 or IPv6 address with a port.
class Address {
 public:
  Address() = default;
  /// The addresses of a host's name or number; none if the name isn't known.
  static std::vector<Address> of(const std::string& host, int port);
  /// Every address of this machine, of the same kind as `like`; or the one that only this machine reaches.
  static Address any(const Address& like, int port);
  static Address loopback(const Address& like, int port);

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t length() const { return length_; }
  int port() const;
  bool is_loopback() const;
  std::string host() const;  // "127.0.0.1", "::1"
  std::string text() const;  // "127.0.0.1:29500", "[::1]:29500"
  Address with_port(int port) const;
  friend bool operator==(const Address& a, const Address& b) { return a.text() == b.text(); }

 private:
  friend class Socket;  // asks the system for addresses
  sockaddr_storage storage_{};
  socklen_t length_ = 0;
};

/// Owns a descriptor.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }

  /// Listens on an address; port 0: any free one. Throws std::system_error.
  static Socket listening(const Address& address);
  /// Connects; empty if that fails before the deadline, with the reason in `why`.
  static std::optional<Socket> connected(const Address& address, Deadline deadline, std::string& why);
  /// A connection that waits at a listening socket, without blocking; not open if there is none.
  Socket accepted() const;

  bool open() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }
  void close();
  Address local() const;
  Address peer() const;

  /// Small messages leave at once, and the connection breaks when the peer's machine has been silent for `seconds`.
  void prepare(double seconds) const;

  /// Bytes moved without blocking; 0 if none can be. Empty: the connection is closed or broken.
  std::optional<std::size_t> send_some(std::span<const std::byte> bytes) const;
  std::optional<std::size_t> send_parts(std::span<iovec> parts) const;
  std::optional<std::size_t> receive_some(std::span<std::byte> bytes) const;
  /// All bytes; false if the connection ends or the deadline passes before.
  bool send_all(std::span<const std::byte> bytes, Deadline deadline) const;
  bool receive_all(std::span<std::byte> bytes, Deadline deadline) const;

 private:
  int descriptor_ = -1;
};

}  // namespace weft::comm
