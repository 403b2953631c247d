// Collectives, and messages between pipeline stages. Float sums are added in fp32 in rank order and rounded once, on
// every communicator.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>

#include "graph/operations/schema.h"

namespace weft::graph {

/// The process groups of a rank, each with one communicator and one stream. z has two, so that gathers never wait in a
/// queue after scatters, nor scatters after gathers. `world` is all ranks.
///
/// With pipeline stages: `pipe` is the ranks of all stages that differ in nothing else, `embedding` the first and the
/// last of them, `stage` all ranks of one stage. Messages between neighbours have four queues, so that none waits for
/// another one's: sends to the next stage and receives from the previous one, and the other way round.
///
/// `context` is the neighbours on z that have parts of the same sequences, `expert` the neighbours on z that share out
/// a layer's experts, and `expert_copies` the ranks of z that have the same experts.
enum class Channel : std::uint8_t {
  x,
  y,
  z_gather,
  z_scatter,
  data,
  world,
  pipe,
  embedding,
  stage,
  send_next,
  receive_previous,
  send_previous,
  receive_next,
  context,
  expert,
  expert_copies
};

/// Graphs of somebody else's step have queues of their own, numbered from here on (Graph::channels()).
inline constexpr std::size_t kAxisChannels = static_cast<std::size_t>(Channel::expert_copies) + 1;
inline constexpr std::size_t kMostOwnChannels = 256 - kAxisChannels;

constexpr bool is_own(Channel channel) {
  return static_cast<std::size_t>(channel) >= kAxisChannels;
}

/// The channel in fingerprints, which files hold: a graph's own channels are numbered from `context` on, as they were
/// before there was one, so that a new channel changes no fingerprint.
constexpr std::uint8_t fingerprint_number(Channel channel) {
  const auto number = static_cast<std::size_t>(channel);
  const std::size_t shift = is_own(channel) ? kAxisChannels - static_cast<std::size_t>(Channel::context) : 0;
  return static_cast<std::uint8_t>(number - shift);
}

/// Whether the channel carries messages between two stages.
constexpr bool is_message(Channel channel) {
  return channel >= Channel::send_next && channel <= Channel::receive_next;
}

/// The channel at the other end of a message channel: receive_previous for send_next.
constexpr Channel other_end(Channel channel) {
  if (!is_message(channel)) return channel;
  const bool sends = channel == Channel::send_next || channel == Channel::send_previous;
  return static_cast<Channel>(static_cast<int>(channel) + (sends ? 1 : -1));  // the two ends stand side by side
}

/// "own" for one of a graph's own queues, whose name Graph::channel_name() tells.
std::string_view to_string(Channel channel);

/// Elements of workspace: each rank receives its slice (⌈count/ranks⌉ elements) from every peer.
constexpr std::int64_t all_reduce_workspace(std::int64_t count, std::int64_t ranks) {
  return ranks <= 1 ? 0 : (count + ranks - 1) / ranks * (ranks - 1);
}

/// Bytes that each of `ranks` ranks sends when `elements` elements have to reach or leave every rank once.
constexpr double ring_bytes(std::int64_t ranks, double elements, double element_bytes) {
  return elements * element_bytes * as_double(ranks - 1) / as_double(ranks);
}

/// What a collective moves.
struct GroupMessage {
  Channel channel;
  std::int64_t ranks, count;

  static constexpr auto fields() {
    return std::tuple{field("channel", &GroupMessage::channel), field("ranks", &GroupMessage::ranks),
                      field("count", &GroupMessage::count)};
  }
};

struct AllReduce : GroupMessage {
  static constexpr std::string_view kind = "all_reduce";
  static constexpr KindClass kind_class = KindClass::all_reduce;
  constexpr auto arguments() const {
    return std::array{
        updates("buffer", {count}, kFloat),
        writes("workspace", {all_reduce_workspace(count, ranks)}, same_as("buffer")),
    };
  }
  constexpr Work work(double element_bytes) const {
    return {as_double(count), 3 * element_bytes * as_double(count),
            2 * ring_bytes(ranks, as_double(count), element_bytes)};
  }
};

/// Rank r gets the sum of elements [r·count, (r+1)·count) of all ranks' inputs.
struct ReduceScatter : GroupMessage {
  static constexpr std::string_view kind = "reduce_scatter";
  static constexpr KindClass kind_class = KindClass::reduce_scatter;
  constexpr auto arguments() const {
    return std::array{
        reads("in", {ranks * count}, kFloat),
        writes("out", {count}, same_as("in")),
        writes("workspace", {(ranks - 1) * count}, same_as("in")),
    };
  }
  constexpr Work work(double element_bytes) const {
    return {as_double(ranks * count), element_bytes * as_double((ranks + 1) * count),
            ring_bytes(ranks, as_double(ranks * count), element_bytes)};
  }
};

struct AllGather : GroupMessage {
  static constexpr std::string_view kind = "all_gather";
  static constexpr KindClass kind_class = KindClass::all_gather;
  constexpr auto arguments() const {
    return std::array{reads("in", {count}, kAnyDType), writes("out", {ranks * count}, same_as("in"))};
  }
  constexpr Work work(double element_bytes) const {
    return {0, element_bytes * as_double((ranks + 1) * count),
            ring_bytes(ranks, as_double(ranks * count), element_bytes)};
  }
};

struct Broadcast {
  Channel channel;
  std::int64_t ranks, count, root;

  static constexpr std::string_view kind = "broadcast";
  static constexpr KindClass kind_class = KindClass::copy;
  static constexpr auto fields() {
    return std::tuple{field("channel", &Broadcast::channel), field("ranks", &Broadcast::ranks),
                      field("count", &Broadcast::count), field("root", &Broadcast::root)};
  }
  constexpr auto arguments() const { return std::array{updates("buffer", {count}, kAnyDType)}; }
  constexpr Work work(double element_bytes) const {
    return {0, 2 * element_bytes * as_double(count), element_bytes * as_double(ranks == 1 ? 0 : count)};
  }
};

/// Every rank gives each rank, itself included, `parts` parts of `count` elements, and gets as many from each. `in` has
/// the parts of one rank after the other, and in `out` part 0 of all ranks comes first: rows of sequences that are cut
/// become whole sequences. `inverse` is the way back.
///
///                in                       out
///                [ranks, parts, count] →  [parts, ranks, count]
///   inverse      [parts, ranks, count] →  [ranks, parts, count]
struct AllToAll {
  Channel channel;
  std::int64_t ranks, count, parts = 1;
  bool inverse = false;

  static constexpr std::string_view kind = "all_to_all";
  static constexpr KindClass kind_class = KindClass::exchange;
  static constexpr auto fields() {
    return std::tuple{field("channel", &AllToAll::channel), field("ranks", &AllToAll::ranks),
                      field("count", &AllToAll::count), field("parts", &AllToAll::parts),
                      field("inverse", &AllToAll::inverse).free_of_cost()};
  }
  constexpr std::int64_t elements() const { return ranks * parts * count; }
  constexpr auto arguments() const {
    return std::array{reads("in", {elements()}, kAnyDType), writes("out", {elements()}, same_as("in"))};
  }
  constexpr Work work(double element_bytes) const {
    return {0, 2 * element_bytes * as_double(elements()), ring_bytes(ranks, as_double(elements()), element_bytes)};
  }
};

/// Rows of tokens go to the ranks of their experts. Each of `ranks` ranks has as many of the `experts`, in their order,
/// and gives `rows` rows of `count` elements, in the order of their experts. How many rows go where is data: row r of
/// `table` is rank r's, whose rows for expert e are [table[r, e], table[r, e + 1]). A rank gets the rows of its experts
/// in the order of (expert, giving rank, row). `most` is the most that it can get, each rank's share of it the most
/// from one rank; rows that nobody gives mean nothing afterwards. `inverse` is the way back; each way is the other's
/// adjoint. Work is counted for equal shares.
struct ExchangeRows {
  Channel channel;
  std::int64_t ranks, count, rows, most, experts;
  bool inverse = false;

  static constexpr std::string_view kind = "exchange_rows";
  static constexpr KindClass kind_class = KindClass::exchange;
  static constexpr auto fields() {
    return std::tuple{field("channel", &ExchangeRows::channel),
                      field("ranks", &ExchangeRows::ranks),
                      field("count", &ExchangeRows::count),
                      field("rows", &ExchangeRows::rows),
                      field("most", &ExchangeRows::most),
                      field("experts", &ExchangeRows::experts),
                      field("inverse", &ExchangeRows::inverse).free_of_cost()};
  }
  constexpr auto arguments() const {
    return std::array{
        reads("in", {inverse ? most : rows, count}, kFloat),
        reads("table", {ranks, experts + 1}, DType::i32),
        writes("out", {inverse ? rows : most, count}, same_as("in")),
    };
  }
  constexpr Work work(double element_bytes) const {
    return {0, 2 * element_bytes * as_double(rows * count), ring_bytes(ranks, as_double(rows * count), element_bytes)};
  }
};

/// `count` elements from or to the neighbour that the channel names. The k-th send of a channel meets the k-th receive
/// at its other end; `message` numbers the messages of a step, so that a mix-up is seen before it runs.
struct StageMessage {
  Channel channel;
  std::int64_t message, count;

  static constexpr auto fields() {
    return std::tuple{field("channel", &StageMessage::channel), field("message", &StageMessage::message).free_of_cost(),
                      field("count", &StageMessage::count)};
  }
};

struct Send : StageMessage {
  static constexpr std::string_view kind = "send";
  static constexpr KindClass kind_class = KindClass::copy;
  constexpr auto arguments() const { return std::array{reads("buffer", {count}, kAnyDType)}; }
  constexpr Work work(double element_bytes) const {
    return {0, element_bytes * as_double(count), element_bytes * as_double(count)};
  }
};

/// Receives the neighbour's message. Its bytes on the network are its Send's.
struct Receive : StageMessage {
  static constexpr std::string_view kind = "receive";
  static constexpr KindClass kind_class = KindClass::copy;
  constexpr auto arguments() const { return std::array{writes("buffer", {count}, kAnyDType)}; }
  constexpr Work work(double element_bytes) const { return {0, element_bytes * as_double(count), 0}; }
};

using CollectiveOperations =
    OperationList<AllReduce, ReduceScatter, AllGather, Broadcast, Send, Receive, AllToAll, ExchangeRows>;

}  // namespace weft::graph
