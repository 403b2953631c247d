// Posting, testing and summing the pieces of a collective.
#include "runtime/comm/message_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/cpu/elementwise/reduce.h"

namespace weft::comm {
namespace {

constexpr std::int64_t kMinPieceBytes = 8 << 10;

/// A large collective is cut into rounds; round k moves piece k of every rank's slice in two exchanges with all peers:
///
///   exchange   all_reduce, reduce_scatter: my piece from every peer, then sum it; broadcast: piece from the root
///   share      all_reduce, all_gather, broadcast: the finished piece to every peer; all_to_all: each peer's own piece
///
/// A piece of an all_to_all lies within one part. An exchange_rows is one round, with a message for each run of rows.
///
/// A few rounds are in flight at once, each in its own window slot, so that the wire is busy in both directions while a
/// piece is summed. Slot s runs rounds s, s + window, … A round starts only after the slot's previous round has ended
/// on this rank, which needed the peers' part of that round. So messages of one tag (slot and exchange) match in order.
///
/// A small all_reduce or broadcast is direct: ranks exchange whole vectors, every rank sums all of it, and the share
/// stage is left out. Between two ranks both ways send equally many bytes. Over a network all collectives of two ranks
/// are direct, since no piece waits for another; in shared memory large ones aren't, since summing all of it is twice
/// the work.
class MessageCommunicator final : public Communicator {
 public:
  MessageCommunicator(std::unique_ptr<MessagePort> port, const MessageSizes& sizes)
      : sizes_(sizes), rank_(port->rank()), size_(port->size()), port_(std::move(port)) {
    const auto size = static_cast<std::size_t>(size_);
    port_->reserve(reserved_ = 2 * peers() * slots_.size());
    sources_.resize(size);
    // With several peers, a direct exchange is one round of the whole vector.
    const std::int64_t of_direct = size_ == 2 ? 0 : sizes_.direct_bytes;
    const std::int64_t of_peer = std::max(of_direct, sizes_.window * sizes_.most_piece_bytes);
    bounce_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(of_peer) * (size - 1));
  }

  MessageCommunicator(const MessageCommunicator&) = delete;
  MessageCommunicator& operator=(const MessageCommunicator&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void start(const CollectiveCall& call) override {
    if (in_flight_) throw std::logic_error(fmt::format("{} started during {}", describe(call), describe(call_)));
    check_call(call, size_);
    call_ = call;
    element_bytes_ = call.bytes_of(1);
    direct_ = call.in_place() && call.bytes_of(call.count) <= sizes_.direct_bytes;
    if (size_ == 1 && call.kind == CollectiveKind::all_reduce) return;  // already its own sum
    if (call.kind == CollectiveKind::exchange_rows) return start_rows();
    const std::int64_t parts = call.parts, length = direct_ ? call.count : slice_length(call, size_) / parts;
    const std::int64_t bytes = length * element_bytes_;
    const bool two_eager = bytes > sizes_.eager_bytes && bytes <= 2 * sizes_.eager_bytes;
    const std::int64_t piece_bytes =
        two_eager ? sizes_.eager_bytes
                  : std::clamp(bytes / sizes_.pieces, kMinPieceBytes, sizes_.most_piece_bytes) / 64 * 64;
    piece_length_ = direct_ && size_ > 2 ? length : piece_bytes / element_bytes_;
    start_rounds(length == 0 ? 0 : parts * ((length + piece_length_ - 1) / piece_length_), 2 * peers());
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
    int posted = 0, pending = 0;  // requests of this stage, whose places are contiguous
  };

  std::size_t peers() const { return static_cast<std::size_t>(size_ - 1); }

  void start_rounds(std::int64_t rounds, std::size_t slot_requests) {
    rounds_ = rounds;
    slot_requests_ = slot_requests;
    used_requests_ = slot_requests_ * static_cast<std::size_t>(std::min<std::int64_t>(rounds_, sizes_.window));
    if (used_requests_ > reserved_) port_->reserve(reserved_ = used_requests_);
    finished_ = 0;
    in_flight_ = rounds_ > 0;
    for (std::int64_t s = 0; s < std::min<std::int64_t>(rounds_, sizes_.window); ++s) {
      begin_round(static_cast<std::size_t>(s), s);
    }
  }

  void start_rows() {
    const auto runs = static_cast<std::size_t>(call_.table.experts / size_);  // of a peer, one way
    start_rounds(1, 2 * peers() * runs);
  }

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
    slot.stage = Stage::share;
    if (call_.kind == CollectiveKind::all_to_all) return post_own_pieces(slot);
    if (call_.kind == CollectiveKind::exchange_rows) return post_rows(slot);
    if (call_.kind == CollectiveKind::all_gather) return post_share(slot);
    slot.stage = Stage::exchange;
    post_exchange(slot);
  }

  /// Piece `round` of what this rank gives to, or gets from, a peer in an all_to_all.
  Slice piece_of_part(int peer, std::int64_t round, bool gets) const {
    const std::int64_t of_part = rounds_ / call_.parts, part = round / of_part;
    const std::int64_t first = round % of_part * piece_length_;
    const std::int64_t begin = gets ? part_from(call_, size_, peer, part) : part_for(call_, size_, peer, part);
    return {begin + first, std::min(piece_length_, call_.count - first)};
  }

  void post_own_pieces(Slot& slot) {
    for (int i = 1; i < size_; ++i) {
      const int peer = (rank_ + size_ - i) % size_;
      const Slice theirs = piece_of_part(peer, slot.round, true);
      receive(slot, peer, call_.out_at(theirs.begin), theirs.count);
    }
    for (int i = 1; i < size_; ++i) {
      const int peer = (rank_ + i) % size_;
      const Slice own = piece_of_part(peer, slot.round, false);
      send(slot, peer, call_.in_at(own.begin), own.count);
    }
  }

  void post_rows(Slot& slot) {
    const auto runs = [&](int giver, int holder) { return row_runs(call_, size_, giver, holder); };
    for (int i = 1; i < size_; ++i) {
      const int peer = (rank_ + size_ - i) % size_;
      for (const RowRun& run : call_.inverse ? runs(rank_, peer) : runs(peer, rank_)) {
        receive(slot, peer, call_.out_at((call_.inverse ? run.given : run.held) * call_.count), run.rows * call_.count);
      }
    }
    for (int i = 1; i < size_; ++i) {
      const int peer = (rank_ + i) % size_;
      for (const RowRun& run : call_.inverse ? runs(peer, rank_) : runs(rank_, peer)) {
        send(slot, peer, call_.in_at((call_.inverse ? run.held : run.given) * call_.count), run.rows * call_.count);
      }
    }
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

  std::size_t bytes_of(std::int64_t count) const { return static_cast<std::size_t>(count * element_bytes_); }

  void send(Slot& slot, int peer, const std::byte* from, std::int64_t count) {
    if (count == 0) return;
    port_->send(next_place(slot), peer, tag(slot), {from, bytes_of(count)}, to_string(call_.kind));
  }

  void receive(Slot& slot, int peer, std::byte* to, std::int64_t count) {
    if (count == 0) return;
    port_->receive(next_place(slot), peer, tag(slot), {to, bytes_of(count)}, to_string(call_.kind));
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
    const bool exchanges = call_.kind == CollectiveKind::all_to_all;
    const Slice own = exchanges ? piece_of_part(rank_, round, true) : piece(rank_, round);
    const std::byte* from = call_.in_at(exchanges ? piece_of_part(rank_, round, false).begin : round * piece_length_);
    std::byte* to = call_.out_at(own.begin);
    if (from != to) std::memcpy(to, from, static_cast<std::size_t>(call_.bytes_of(own.count)));
  }

  void copy_own_rows() {
    for (const RowRun& run : row_runs(call_, size_, rank_, rank_)) {
      if (run.rows == 0) continue;
      const std::int64_t from = call_.inverse ? run.held : run.given, to = call_.inverse ? run.given : run.held;
      std::memcpy(call_.out_at(to * call_.count), call_.in_at(from * call_.count), bytes_of(run.rows * call_.count));
    }
  }

  std::size_t next_place(Slot& slot) {
    const auto index = static_cast<std::size_t>(&slot - slots_.data());
    ++slot.pending;
    return index * slot_requests_ + static_cast<std::size_t>(slot.posted++);
  }

  /// Returns how many requests have completed.
  std::size_t test_requests() {
    const std::span<const int> completed = port_->completed(used_requests_, to_string(call_.kind));
    for (const int place : completed) --slots_[static_cast<std::size_t>(place) / slot_requests_].pending;
    return completed.size();
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
    } else if (call_.kind == CollectiveKind::all_gather || call_.kind == CollectiveKind::all_to_all) {
      copy_own_piece(slot.round);
    } else if (call_.kind == CollectiveKind::exchange_rows) {
      copy_own_rows();
    }
    ++finished_;
    slot.active = false;
    if (slot.round + sizes_.window < rounds_) begin_round(index, slot.round + sizes_.window);
  }

  MessageSizes sizes_;
  int rank_, size_;
  CollectiveCall call_{};
  bool in_flight_ = false;
  bool direct_ = false;
  std::int64_t element_bytes_ = 0, piece_length_ = 0, rounds_ = 0, finished_ = 0;
  std::array<Slot, kMostWindow> slots_;
  std::size_t slot_requests_ = 0;  // places of each slot: as many sends as receives for each peer
  std::size_t used_requests_ = 0;  // places of the slots that this collective uses
  std::size_t reserved_ = 0;       // places of the port
  std::vector<const void*> sources_;
  std::unique_ptr<std::byte[]> bounce_;  // the peers' pieces of the rounds in flight
  std::unique_ptr<MessagePort> port_;    // destroyed before the buffers
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

std::unique_ptr<Communicator> make_message_communicator(std::unique_ptr<MessagePort> port, const MessageSizes& sizes) {
  return std::make_unique<MessageCommunicator>(std::move(port), sizes);
}

}  // namespace weft::comm
