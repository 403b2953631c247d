// Communication between ranks: non-blocking collectives of one process group, and a few blocking calls for start-up.
//
// Every implementation sums floats directly: each rank receives its slice from every peer, adds in fp32 in rank order,
// rounds once and shares the result. A rank sends as many bytes as in a ring, and the bits are the same everywhere.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/dtype.h"

namespace weft::comm {

enum class CollectiveKind : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  all_to_all,
  exchange_rows
};

std::string_view to_string(CollectiveKind kind);

/// What an exchange_rows has beside: graph::ExchangeRows' table, which is a buffer as `in` is, and
/// its sizes.
struct RowTable {
  const std::int32_t* offsets = nullptr;  // [ranks, experts + 1], the same on every rank
  std::int64_t experts = 0, rows = 0, most = 0;

  /// Whether two ranks' calls can be the same exchange.
  bool matches(const RowTable& other) const {
    return experts == other.experts && rows == other.rows && most == other.most;
  }
};

/// One collective as a communicator sees it. `count` has the meaning of the operation of the same name
/// (graph/operation.h); all_reduce and broadcast work in place on `out`. reduce_scatter's `out` may be the rank's slice
/// of `in`, all_gather's `in` the rank's slice of `out`; no other overlap. Floats are summed in fp32, integers wrap.
/// `parts` and `inverse` are all_to_all's, `inverse` and `table` those of exchange_rows, whose `count` is that of a
/// row; their buffers may not overlap. all_reduce needs all_reduce_workspace(count, size) elements of workspace,
/// reduce_scatter (size − 1)·count.
struct CollectiveCall {
  CollectiveKind kind;
  DType dtype = DType::f32;
  std::int64_t count = 0;
  std::int64_t root = 0;
  const void* in = nullptr;
  void* out = nullptr;
  void* workspace = nullptr;
  std::int64_t parts = 1;
  bool inverse = false;
  RowTable table = {};

  /// Whether every rank has a place for the full vector in `out`, whose length `count` is; else `count` is a slice's.
  constexpr bool in_place() const { return kind == CollectiveKind::all_reduce || kind == CollectiveKind::broadcast; }
  constexpr bool sums() const { return kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter; }
  /// Whether two ranks' calls can be the same collective.
  bool matches(const CollectiveCall& other) const {
    return kind == other.kind && dtype == other.dtype && count == other.count && root == other.root &&
           parts == other.parts && inverse == other.inverse && table.matches(other.table);
  }
  std::int64_t bytes_of(std::int64_t elements) const { return elements * static_cast<std::int64_t>(size_of(dtype)); }
  const std::byte* in_at(std::int64_t element) const { return static_cast<const std::byte*>(in) + bytes_of(element); }
  std::byte* out_at(std::int64_t element) const { return static_cast<std::byte*>(out) + bytes_of(element); }
  /// Where a rank's own numbers are before the collective.
  const std::byte* source_at(std::int64_t element) const { return in_place() ? out_at(element) : in_at(element); }
};

/// Elements [begin, begin + count) of the full vector.
struct Slice {
  std::int64_t begin = 0, count = 0;
};

/// Elements of the full vector: all ranks' slices.
constexpr std::int64_t full_length(const CollectiveCall& call, int ranks) {
  return call.in_place() ? call.count : call.count * call.parts * ranks;
}

/// Number of elements of a rank's slice; slices of the last ranks may be shorter or empty.
constexpr std::int64_t slice_length(const CollectiveCall& call, int ranks) {
  return (full_length(call, ranks) + ranks - 1) / ranks;
}

/// The slice that `rank` sums (all_reduce, reduce_scatter) or shares (all_reduce, all_gather, broadcast).
/// An all_to_all has as many elements for each rank.
/// Example: an all_reduce of 7 elements over 4 ranks has slices of 2, 2, 2 and 1.
constexpr Slice slice_of(const CollectiveCall& call, int ranks, int rank) {
  const std::int64_t length = slice_length(call, ranks), total = full_length(call, ranks);
  const std::int64_t begin = std::min(length * rank, total);
  return {begin, std::min(length, total - begin)};
}

/// Of an all_to_all: the first element of part `part` in `in`, if it is for `peer`, and in `out`, if it is from `peer`.
constexpr std::int64_t part_for(const CollectiveCall& call, int ranks, int peer, std::int64_t part) {
  return (call.inverse ? part * ranks + peer : peer * call.parts + part) * call.count;
}
constexpr std::int64_t part_from(const CollectiveCall& call, int ranks, int peer, std::int64_t part) {
  return (call.inverse ? peer * call.parts + part : part * ranks + peer) * call.count;
}

/// Of an exchange_rows: rows of one expert. They begin at `given` among the giver's rows, and at `held` among the rows
/// of the expert's rank.
struct RowRun {
  std::int64_t given = 0, held = 0, rows = 0;
};

/// The rows that `giver` gives to the experts of `holder`, expert by expert. Throws RuntimeFault if the table's numbers
/// can't be.
std::vector<RowRun> row_runs(const CollectiveCall& call, int ranks, int giver, int holder);

/// A table by which each of `ranks` ranks gives every expert as many of its `rows` rows.
std::vector<std::int32_t> even_row_table(std::int64_t ranks, std::int64_t experts, std::int64_t rows);

/// Throws std::logic_error when `call` can't be right on any rank: a negative count, a root outside the group, a
/// missing buffer.
void check_call(const CollectiveCall& call, int ranks);

/// "all_reduce of 7 f32" for messages.
std::string describe(const CollectiveCall& call);

/// Thrown by progress() and by blocking calls after another rank of the world gave up.
class PeerLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// One rank's end of a process group. At most one collective is in flight; members start them in the same order.
/// Buffers of a collective must live until it is complete or the communicator is destroyed: when an exception unwinds a
/// rank, destroy its communicators before its buffers. Any thread may call, but only one at a time; with MPI, only one
/// thread at a time over all communicators of the process.
///
///   communicator.start({CollectiveKind::all_reduce, DType::f32, n, 0, nullptr, buffer, workspace});
///   while (!communicator.progress()) compute_a_little();
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Begins a collective; returns at once. The previous one must be complete (else std::logic_error).
  virtual void start(const CollectiveCall& call) = 0;
  /// Advances the collective in flight without blocking or spinning; true once it is complete (and when none is in
  /// flight). Throws PeerLost when another rank gave up, RuntimeFault (naming the collective) when the transport failed
  /// or the members' calls differ.
  virtual bool progress() = 0;
};

/// A rank's view of all ranks of the run: makes communicators of groups, and blocks at start-up and shutdown only.
class World {
 public:
  virtual ~World() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// The transport: "local", "mpi" or "tcp".
  virtual std::string name() const = 0;
  /// Whether each rank is a process; else ranks are threads of this one.
  virtual bool of_processes() const { return false; }
  /// The number of ranks on this node, this one included.
  virtual int ranks_on_node() const = 0;
  /// This rank's place among the ranks of its node, from 0.
  virtual int rank_on_node() const = 0;

  /// Ranks that pass the same `color` form a group, ordered by their rank here. Collective over the world.
  virtual std::unique_ptr<Communicator> split(int color) = 0;

  virtual void barrier() = 0;
  /// Copies the root's `bytes` to every rank; the other ranks' vectors are resized.
  virtual void broadcast(std::vector<std::byte>& bytes, int root);
  /// Every rank's value, by rank.
  virtual std::vector<std::uint64_t> all_gather(std::uint64_t value);
  /// Every rank's bytes, by rank (lengths may differ).
  virtual std::vector<std::vector<std::byte>> all_gather_bytes(std::span<const std::byte> bytes) = 0;

  /// Throws PeerLost if another rank has given up; for waits that wouldn't notice it themselves. Returns at once; any
  /// thread may call it.
  virtual void expect_peers() = 0;

  /// Tells the others that this rank gives up, so that they throw PeerLost instead of waiting for ever. With MPI this
  /// ends every process with `exit_code` and doesn't return; over TCP the others end with that code. Prints nothing;
  /// any thread may call it at any time.
  virtual void abort(const std::string& reason, int exit_code) = 0;
};

/// Runs a collective to its end. Between calls of progress() it spins briefly, then yields, then sleeps.
void run_blocking(Communicator& communicator, const CollectiveCall& call);

/// Every rank's value, by rank. Collective over the world.
template <class T>
requires std::is_trivially_copyable_v<T> std::vector<T> of_ranks(World& world, const T& own) {
  std::vector<T> all;
  for (const auto& bytes : world.all_gather_bytes(std::as_bytes(std::span(&own, 1)))) {
    std::memcpy(&all.emplace_back(), bytes.data(), sizeof(T));
  }
  return all;
}
/// The same by World::all_gather(), which is fast enough for a step.
inline std::vector<double> of_ranks(World& world, double own) {
  std::vector<double> all;
  for (const std::uint64_t bits : world.all_gather(std::bit_cast<std::uint64_t>(own))) {
    all.push_back(std::bit_cast<double>(bits));
  }
  return all;
}

/// Every rank's text or vector of numbers, by rank; lengths may differ. Collective over the world.
template <class Values>
requires std::is_trivially_copyable_v<typename Values::value_type> std::vector<Values> of_ranks(World& world,
                                                                                                const Values& own) {
  std::vector<Values> all;
  for (const auto& bytes : world.all_gather_bytes(std::as_bytes(std::span(own)))) {
    Values& values = all.emplace_back();
    values.resize(bytes.size() / sizeof(typename Values::value_type));
    if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  }
  return all;
}

}  // namespace weft::comm
