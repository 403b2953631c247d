// Collectives of one process group over MPI_Isend and MPI_Irecv; RAII for MPI and its communicators, and errors as
// exceptions. Includes mpi.h: for .cpp files of this folder only.
#pragma once

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <fmt/format.h>
#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "runtime/comm/communicator.h"

namespace weft::comm {

/// Throws RuntimeFault "all_reduce: MPI_ERR_TRUNCATE: message truncated" unless `code` is MPI_SUCCESS.
inline void check_mpi(int code, std::string_view what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw RuntimeFault(fmt::format("{}: {}", what, std::string_view(text, static_cast<std::size_t>(length))));
}

/// MPI from MPI_Init_thread to MPI_Finalize. Every owner of a communicator shares ownership of this.
class MpiSession {
 public:
  MpiSession() {
    int provided = MPI_THREAD_SINGLE;
    check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
    if (provided < MPI_THREAD_SERIALIZED) {
      MPI_Finalize();
      throw RuntimeFault(
          "this MPI library allows calls only from the thread that initialised it; Weft needs MPI_THREAD_SERIALIZED");
    }
  }
  ~MpiSession() { MPI_Finalize(); }
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;
};

/// Owns a communicator. In practice MPI_Comm_free doesn't wait for other ranks, but no message may be in flight.
class CommHandle {
 public:
  CommHandle(std::shared_ptr<MpiSession> session, MPI_Comm comm) : session_(std::move(session)), comm_(comm) {
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  }
  ~CommHandle() {
    if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
  }
  CommHandle(CommHandle&& other) noexcept
      : session_(std::move(other.session_)), comm_(std::exchange(other.comm_, MPI_COMM_NULL)) {}
  CommHandle& operator=(CommHandle&&) = delete;

  MPI_Comm get() const { return comm_; }
  int rank() const {
    int rank = 0;
    MPI_Comm_rank(comm_, &rank);
    return rank;
  }
  int size() const {
    int size = 0;
    MPI_Comm_size(comm_, &size);
    return size;
  }
  /// Never frees the communicator: for failures that leave messages in flight.
  void leak() { comm_ = MPI_COMM_NULL; }

 private:
  std::shared_ptr<MpiSession> session_;
  MPI_Comm comm_;
};

/// The sizes by which a group's collectives are cut into messages. They don't affect the bits of the result.
struct MessageSizes {
  std::int64_t direct_bytes;      // up to this size all_reduce and broadcast exchange whole vectors
  std::int64_t most_piece_bytes;  // of a rank's slice, or of the vector where it is exchanged whole
  std::int64_t pieces;            // least number of pieces, unless they would get smaller than kMinPieceBytes
  int window;                     // rounds in flight, at most MpiCommunicator::kMostWindow
  std::int64_t eager_bytes = 0;   // a vector that fits into two messages of this size is sent as two
};

/// `shared_memory`: all of the group's ranks are on one node.
MessageSizes message_sizes(int ranks, bool shared_memory);

/// A large collective is cut into rounds; round k moves piece k of every rank's slice in two exchanges with all peers:
///
///   exchange   all_reduce, reduce_scatter: my piece from every peer, then sum it; broadcast: piece from the root
///   share      all_reduce, all_gather, broadcast: the finished piece to every peer
///
/// A few rounds are in flight at once, each in its own window slot, so that the wire is busy in both directions while a
/// piece is summed. Slot s runs rounds s, s + window, … A round starts only after the slot's previous round has ended
/// on this rank, which needed the peers' part of that round. So messages of one tag (slot and exchange) match in order.
///
/// A small all_reduce or broadcast is direct: ranks exchange whole vectors, every rank sums all of it, and the share
/// stage is left out. Between two ranks both ways send equally many bytes. Over a network all collectives of two ranks
/// are direct, since no piece waits for another; in shared memory large ones aren't, since summing all of it is twice
/// the work.
class MpiCommunicator final : public Communicator {
 public:
  static constexpr int kMostWindow = 8;

  MpiCommunicator(CommHandle comm, const MessageSizes& sizes);
  ~MpiCommunicator() override;
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void start(const CollectiveCall& call) override;
  bool progress() override;

 private:
  enum class Stage : std::uint8_t { exchange, share };
  struct Slot {
    bool active = false;
    std::int64_t round = 0;
    Stage stage = Stage::exchange;
    int posted = 0, pending = 0;  // requests of this stage, which are contiguous in requests_
  };

  /// Piece `round` of the slice of `rank`.
  Slice piece(int rank, std::int64_t round) const;
  /// Where this rank receives the peer's contribution to its piece of `round`: a few buffers that stay in the cache.
  std::byte* contribution(int peer, std::int64_t round);

  bool shares() const { return !direct_ && call_.kind != CollectiveKind::reduce_scatter; }
  int tag(const Slot& slot) const;
  void begin_round(std::size_t slot, std::int64_t round);
  void post_exchange(Slot& slot);
  void post_share(Slot& slot);
  void send(Slot& slot, int peer, const std::byte* from, std::int64_t count);
  void receive(Slot& slot, int peer, std::byte* to, std::int64_t count);
  void sum(std::int64_t round);
  void copy_own_piece(std::int64_t round);
  MPI_Request& next_request(Slot& slot);
  void test_requests();
  void finish_stage(std::size_t slot);

  CommHandle comm_;
  MessageSizes sizes_;
  int rank_, size_;
  CollectiveCall call_{};
  bool in_flight_ = false;
  bool direct_ = false;
  std::int64_t element_bytes_ = 0, piece_length_ = 0, rounds_ = 0, finished_ = 0;
  std::array<Slot, kMostWindow> slots_;
  std::size_t slot_requests_;          // places in requests_ for each slot: a send and a receive for each peer
  std::size_t used_requests_ = 0;      // places of the slots that this collective uses
  std::vector<MPI_Request> requests_;  // by slot; MPI_REQUEST_NULL where none is pending
  std::vector<MPI_Status> statuses_;
  std::vector<int> completed_;
  std::vector<const void*> sources_;
  std::unique_ptr<std::byte[]> bounce_;  // the peers' pieces of the rounds in flight
};

}  // namespace weft::comm
