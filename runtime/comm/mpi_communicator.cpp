// Posting, testing and summing the pieces of a collective.
#include "runtime/comm/mpi_communicator.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/cpu/elementwise/reduce.h"

namespace weft::comm {
namespace {

constexpr std::int64_t kMinPieceBytes = 8 << 10;

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
  MpiCommunicator(CommHandle comm, const MessageSizes& sizes)
      : comm_(std::move(comm)), sizes_(sizes), rank_(comm_.rank()), size_(comm_.size()) {
    const auto size = static_cast<std::size_t>(size_);
    slot_requests_ = 2 * (size - 1);
    requests_.assign(slot_requests_ * slots_.size(), MPI_REQUEST_NULL);
    statuses_.resize(requests_.size());
    completed_.resize(requests_.size());
    sources_.resize(size);
    // With several peers, a direct exchange is one round of the whole vector.
    const std::int64_t of_direct = size_ == 2 ? 0 : sizes_.direct_bytes;
    const std::int64_t of_peer = std::max(of_direct, sizes_.window * sizes_.most_piece_bytes);
    bounce_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(of_peer) * (size - 1));
  }

  // Only a failing rank gets here with messages in flight. Receives are cancelled, because their buffers will be
  // destroyed. Sends can't be cancelled, so the communicator is kept until the process ends.
  ~MpiCommunicator() override {
    if (!in_flight_) return;
    for (MPI_Request& request : requests_) {
      if (request == MPI_REQUEST_NULL) continue;
      MPI_Cancel(&request);
      MPI_Request_free(&request);
    }
    comm_.leak();
  }

  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void start(const CollectiveCall& call) override {
    if (in_flight_) throw std::logic_error(fmt::format("{} started during {}", describe(call), describe(call_)));
    check_call(call, size_);
    call_ = call;
    element_bytes_ = call.bytes_of(1);
    direct_ = call.in_place() && call.bytes_of(call.count) <= sizes_.direct_bytes;
    if (size_ == 1 && call.kind == CollectiveKind::all_reduce) return;  // already its own sum
    const std::int64_t length = direct_ ? call.count : slice_length(call, size_);
    const std::int64_t bytes = length * element_bytes_;
    const bool two_eager = bytes > sizes_.eager_bytes && bytes <= 2 * sizes_.eager_bytes;
    const std::int64_t piece_bytes =
        two_eager ? sizes_.eager_bytes
                  : std::clamp(bytes / sizes_.pieces, kMinPieceBytes, sizes_.most_piece_bytes) / 64 * 64;
    piece_length_ = direct_ && size_ > 2 ? length : piece_bytes / element_bytes_;
    rounds_ = length == 0 ? 0 : (length + piece_length_ - 1) / piece_length_;
    used_requests_ = slot_requests_ * static_cast<std::size_t>(std::min<std::int64_t>(rounds_, sizes_.window));
    finished_ = 0;
    in_flight_ = rounds_ > 0;
    for (std::int64_t s = 0; s < std::min<std::int64_t>(rounds_, sizes_.window); ++s) {
      begin_round(static_cast<std::size_t>(s), s);
    }
  }

  bool progress() override {
    // Open MPI reads one message of a socket in a call, and the next call of progress() may be a millisecond away.
    for (bool advances = true; in_flight_ && advances;) {
      advances = test_requests() > 0;
      for (std::size_t s = 0; s < slots_.size(); ++s) {
        if (!slots_[s].active || slots_[s].pending > 0) continue;
        finish_stage(s);
        advances = true;
      }
      in_flight_ = finished_ < rounds_;
    }
    return !in_flight_;
  }

 private:
  enum class Stage : std::uint8_t { exchange, share };
  struct Slot {
    bool active = false;
    std::int64_t round = 0;
    Stage stage = Stage::exchange;
    int posted = 0, pending = 0;  // requests of this stage, which are contiguous in requests_
  };

  /// Piece `round` of the slice of `rank`.
  Slice piece(int rank, std::int64_t round) const {
    const Slice slice = direct_ ? Slice{0, call_.count} : slice_of(call_, size_, rank);
    const std::int64_t first = std::min(slice.count, round * piece_length_);
    return {slice.begin + first, std::min(piece_length_, slice.count - first)};
  }

  /// Where this rank receives the peer's contribution to its piece of `round`: a few buffers that stay in the cache.
  std::byte* contribution(int peer, std::int64_t round) {
    const std::int64_t place = peer < rank_ ? peer : peer - 1;
    return bounce_.get() + ((round % sizes_.window) * (size_ - 1) + place) * piece_length_ * element_bytes_;
  }

  void begin_round(std::size_t index, std::int64_t round) {
    Slot& slot = slots_[index];
    slot.active = true;
    slot.round = round;
    slot.posted = slot.pending = 0;
    const bool gathers = call_.kind == CollectiveKind::all_gather;
    slot.stage = gathers ? Stage::share : Stage::exchange;
    gathers ? post_share(slot) : post_exchange(slot);
  }

  void post_exchange(Slot& slot) {
    const bool broadcasts = call_.kind == CollectiveKind::broadcast;
    const Slice own = piece(rank_, slot.round);
    for (int i = 1; i < size_; ++i) {  // receives first, so that no message arrives before its receive is posted
      const int peer = (rank_ + size_ - i) % size_;
      if (broadcasts && peer != call_.root) continue;
      receive(slot, peer, broadcasts ? call_.out_at(own.begin) : contribution(peer, slot.round), own.count);
    }
    if (broadcasts && rank_ != call_.root) return;
    for (int i = 1; i < size_; ++i) {  // each rank starts with a different peer
      const int peer = (rank_ + i) % size_;
      const Slice theirs = piece(peer, slot.round);
      send(slot, peer, call_.source_at(theirs.begin), theirs.count);
    }
  }

  void post_share(Slot& slot) {
    const bool gathers = call_.kind == CollectiveKind::all_gather;
    const bool broadcasts = call_.kind == CollectiveKind::broadcast;
    for (int i = 1; i < size_; ++i) {
      const int peer = (rank_ + size_ - i) % size_;
      if (broadcasts && rank_ == call_.root) continue;
      const Slice theirs = piece(peer, slot.round);
      receive(slot, peer, call_.out_at(theirs.begin), theirs.count);
    }
    const Slice own = piece(rank_, slot.round);
    const std::byte* from = gathers ? call_.in_at(slot.round * piece_length_) : call_.out_at(own.begin);
    for (int i = 1; i < size_; ++i) {
      const int peer = (rank_ + i) % size_;
      if (broadcasts && peer == call_.root) continue;
      send(slot, peer, from, own.count);
    }
  }

  bool shares() const { return !direct_ && call_.kind != CollectiveKind::reduce_scatter; }
  int tag(const Slot& slot) const {
    return 2 * static_cast<int>(&slot - slots_.data()) + (slot.stage == Stage::share ? 1 : 0);
  }

  void send(Slot& slot, int peer, const std::byte* from, std::int64_t count) {
    if (count == 0) return;
    const int bytes = static_cast<int>(count * element_bytes_);
    check_mpi(MPI_Isend(from, bytes, MPI_BYTE, peer, tag(slot), comm_.get(), &next_request(slot)),
              to_string(call_.kind));
  }

  void receive(Slot& slot, int peer, std::byte* to, std::int64_t count) {
    if (count == 0) return;
    const int bytes = static_cast<int>(count * element_bytes_);
    check_mpi(MPI_Irecv(to, bytes, MPI_BYTE, peer, tag(slot), comm_.get(), &next_request(slot)), to_string(call_.kind));
  }

  void sum(std::int64_t round) {
    const Slice own = piece(rank_, round);
    if (own.count == 0) return;
    for (int r = 0; r < size_; ++r) {
      sources_[static_cast<std::size_t>(r)] = r == rank_ ? call_.source_at(own.begin) : contribution(r, round);
    }
    std::byte* const out = call_.out_at(call_.in_place() ? own.begin : round * piece_length_);
    cpu::sum_in_rank_order(sources_, out, own.count, call_.dtype);
  }

  void copy_own_piece(std::int64_t round) {
    const Slice own = piece(rank_, round);
    const std::byte* from = call_.in_at(round * piece_length_);
    std::byte* to = call_.out_at(own.begin);
    if (from != to) std::memcpy(to, from, static_cast<std::size_t>(call_.bytes_of(own.count)));
  }

  MPI_Request& next_request(Slot& slot) {
    const auto index = static_cast<std::size_t>(&slot - slots_.data());
    ++slot.pending;
    return requests_[index * slot_requests_ + static_cast<std::size_t>(slot.posted++)];
  }

  // Tests all requests by one call, because MPI polls all of its queues in every call. Returns how many have completed.
  int test_requests() {
    int completed = 0;
    const int code = MPI_Testsome(static_cast<int>(used_requests_), requests_.data(), &completed, completed_.data(),
                                  statuses_.data());
    for (int i = 0; i < completed; ++i) {  // `completed` is MPI_UNDEFINED, which is negative, when no request is active
      if (code == MPI_ERR_IN_STATUS) check_mpi(statuses_[static_cast<std::size_t>(i)].MPI_ERROR, to_string(call_.kind));
      --slots_[static_cast<std::size_t>(completed_[static_cast<std::size_t>(i)]) / slot_requests_].pending;
    }
    check_mpi(code, to_string(call_.kind));
    return std::max(0, completed);
  }

  void finish_stage(std::size_t index) {
    Slot& slot = slots_[index];
    slot.posted = 0;
    if (slot.stage == Stage::exchange) {
      if (call_.sums()) sum(slot.round);
      if (shares()) {
        slot.stage = Stage::share;
        post_share(slot);
        return;
      }
    } else if (call_.kind == CollectiveKind::all_gather) {
      copy_own_piece(slot.round);
    }
    ++finished_;
    slot.active = false;
    if (slot.round + sizes_.window < rounds_) begin_round(index, slot.round + sizes_.window);
  }

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

}  // namespace

// Measured with bench/collectives, on TCP of 1 and 2 Gbit/s (see tools/netlab) and in shared memory.
MessageSizes message_sizes(int ranks, bool shared_memory) {
  constexpr std::int64_t kKilo = 1024, kMega = kKilo * kKilo;
  const std::int64_t peers = std::max(1, ranks - 1);
  if (shared_memory) {  // more messages cost more than summing one piece during the transfer of others gains
    const std::int64_t piece = std::max(kMinPieceBytes, kMega / peers);
    return {.direct_bytes = (ranks == 2 ? 256 : 32) * kKilo,
            .most_piece_bytes = piece,
            .pieces = 1,
            .window = 4,
            .eager_bytes = ranks == 2 ? 4 * kKilo - 64 : 0};  // Open MPI sends longer messages by rendezvous
  }
  // Below Open MPI's eager limit for TCP, header included: such a message is sent without waiting for the peer.
  constexpr std::int64_t kEager = 64 * kKilo - 256;
  if (ranks == 2) {
    return {.direct_bytes = std::numeric_limits<std::int64_t>::max(),
            .most_piece_bytes = kEager,
            .pieces = 4,  // while one piece is summed, others are transferred
            .window = 8};
  }
  const std::int64_t piece = std::clamp(128 * kKilo / peers, kMinPieceBytes, kEager);
  return {.direct_bytes = 32 * kKilo, .most_piece_bytes = piece, .pieces = 4, .window = 8};
}

std::unique_ptr<Communicator> make_mpi_communicator(CommHandle comm, const MessageSizes& sizes) {
  return std::make_unique<MpiCommunicator>(std::move(comm), sizes);
}

}  // namespace weft::comm
