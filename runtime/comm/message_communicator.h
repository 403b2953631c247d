// Collectives of one process group over messages between any two of its ranks: MPI's or those of TCP connections.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "runtime/comm/communicator.h"

namespace weft::comm {

/// Messages between the ranks of a group, by their numbers in it. Nothing blocks. Messages of one sender with one tag
/// arrive in the order in which they were sent. Each request has a place, which the caller gives it and which is free
/// again when the request is complete. `what` names the collective in errors, which are RuntimeFault or PeerLost.
/// Destroyed with requests pending, it doesn't touch their buffers afterwards.
class MessagePort {
 public:
  virtual ~MessagePort() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Makes room for requests at the places before `count`.
  virtual void reserve(std::size_t count) = 0;
  virtual void send(std::size_t place, int peer, int tag, std::span<const std::byte> bytes, std::string_view what) = 0;
  virtual void receive(std::size_t place, int peer, int tag, std::span<std::byte> bytes, std::string_view what) = 0;
  /// Advances all requests; the places before `count` whose requests are complete since.
  virtual std::span<const int> completed(std::size_t count, std::string_view what) = 0;
};

inline constexpr int kMostWindow = 8;

/// The sizes by which a group's collectives are cut into messages. They don't affect the bits of the result.
struct MessageSizes {
  std::int64_t direct_bytes;      // up to this size all_reduce and broadcast exchange whole vectors
  std::int64_t most_piece_bytes;  // of a rank's slice, or of the vector where it is exchanged whole
  std::int64_t pieces;            // least number of pieces, unless they would get smaller than kMinPieceBytes
  int window;                     // rounds in flight, at most kMostWindow
  std::int64_t eager_bytes = 0;   // a vector that fits into two messages of this size is sent as two
};

/// `shared_memory`: all of the group's ranks are on one node.
MessageSizes message_sizes(int ranks, bool shared_memory);

/// The communicator of a group whose collectives are cut by `sizes`.
std::unique_ptr<Communicator> make_message_communicator(std::unique_ptr<MessagePort> port, const MessageSizes& sizes);

}  // namespace weft::comm
