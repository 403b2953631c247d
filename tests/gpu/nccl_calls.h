// Collectives and messages of NCCL between the ranks of a grid, with numbers that show their origin.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "runtime/execute/channel_groups.h"
#include "runtime/execute/cuda/nccl_transport.h"

namespace weft::testing {

/// One rank's calls: of every kind and type on each channel, or messages. Channels have streams of their own.
///
///   NcclCalls calls(world, grid, device, {Channel::x, Channel::data});
///   calls.run_once(round);   // other numbers each round
class NcclCalls {
 public:
  NcclCalls(comm::World& world, const graph::Grid& grid, execute::CudaDevice& device,
            const std::vector<graph::Channel>& channels)
      : grid_(grid), rank_(world.rank()), device_(device), transport_(world, grid, device) {
    for (const graph::Channel channel : channels) {
      transport_.join(channel);
      const execute::DeviceStream stream = device.add_stream("collectives", execute::StreamPriority::high);
      ends_.push_back({stream, device.add_event(false)});
      add_calls(channel, world.size());
    }
    origin_ = device.add_stream("origin", execute::StreamPriority::normal);
    begin_ = device.add_event(false);
    end_ = device.add_event(false);
    const std::int64_t bytes = std::ssize(calls_) * kSlot;
    host_ = device.allocate_pinned(bytes);
    from_ = device.allocate(bytes);
    to_ = device.allocate(bytes);
    std::vector<execute::ChannelCalls> prepared;
    for (std::size_t c = 0; c < calls_.size(); ++c) prepared.push_back({calls_[c].channel, {call_of(c)}});
    transport_.prepare(device, prepared);
  }

  execute::NcclTransport& transport() { return transport_; }
  execute::DeviceStream origin() const { return origin_; }

  /// Several rounds: enqueued each time, or captured once and launched.
  void run(bool captured) {
    run_once(0);  // NCCL connects the ranks in the first calls, which no capture allows
    std::optional<execute::DeviceGraph> graph;
    if (captured) {
      device_.begin_capture(origin_);
      enqueue();
      graph = device_.end_capture(origin_);
    }
    for (const int round : {1, 2}) run_once(round, graph);
    if (graph) device_.destroy(*graph);
  }
  void run_once(int round, const std::optional<execute::DeviceGraph>& graph = {}) {
    write(round);
    graph ? device_.launch(origin_, *graph) : enqueue();
    expect(round);
  }

  void write(int round) {
    for (std::size_t c = 0; c < calls_.size(); ++c) {
      for (std::int64_t i = 0; i < slot_count(); ++i) set(c, i, value(rank_, i, round));
      if (calls_[c].kind == comm::CollectiveKind::exchange_rows) write_table(c, round);
    }
    device_.copy(origin_, from_, host_, std::ssize(calls_) * kSlot);
    device_.copy(origin_, to_, host_, std::ssize(calls_) * kSlot);
    device_.synchronize(origin_);
  }

  /// The calls of every channel, between two waits of the origin.
  void enqueue() {
    enqueue_where([](std::size_t /*call*/) { return true; });
  }
  void enqueue_first_of_each_channel() {
    enqueue_where([this](std::size_t c) { return c == 0 || calls_[c].stream != calls_[c - 1].stream; });
  }

  void expect(int round) {
    device_.copy(origin_, host_, to_, std::ssize(calls_) * kSlot);
    device_.record(end_, origin_);
    execute::wait_for(device_, end_, transport_);
    device_.synchronize(end_);
    for (std::size_t c = 0; c < calls_.size(); ++c) {
      const Call& call = calls_[c];
      SCOPED_TRACE(std::string(to_string(call.channel)) + ", " + std::string(comm::to_string(call.kind)) + " of " +
                   std::string(to_string(call.dtype)) + " on rank " + std::to_string(rank_));
      const std::int64_t ranks = std::ssize(call.group);
      const std::int64_t count = call.kind == comm::CollectiveKind::all_gather      ? kCount * ranks
                                 : call.kind == comm::CollectiveKind::all_to_all    ? kCount * ranks * call.parts
                                 : call.kind == comm::CollectiveKind::exchange_rows ? std::ssize(rows_of(call, round))
                                                                                    : kCount;
      for (std::int64_t i = 0; i < count; ++i)
        EXPECT_EQ(get(c, i), static_cast<float>(result(call, i, round))) << "element " << i;
    }
  }

 private:
  static constexpr std::int64_t kCount = 5, kMostRanks = 4, kParts = 2;
  static constexpr std::int64_t kRows = 3, kExperts = 2;  // of a rank
  static constexpr std::int64_t kSlot = 1024;             // bytes of a call's buffer
  static constexpr std::int64_t kTable = 768;             // where it has the table of an exchange of rows
  static constexpr std::array kTypes = {DType::i32, DType::i64, DType::f32, DType::bf16};

  struct Call {
    graph::Channel channel;
    std::size_t stream;
    comm::CollectiveKind kind;
    DType dtype;
    std::int64_t root;
    std::vector<int> group;  // by place
    std::int64_t own;        // this rank's place
    std::int64_t parts = 1;  // of an all_to_all
    bool inverse = false;    // of one, or of an exchange of rows

    std::int64_t ranks() const { return std::ssize(group); }
  };
  struct End {
    execute::DeviceStream stream;
    execute::DeviceEvent event;
  };

  static constexpr std::int64_t slot_count() { return kCount * kMostRanks * std::max(kParts, kRows); }
  // Sums over four ranks stay below 256, so that every type holds them exactly.
  static int value(int rank, std::int64_t i, int round) { return 9 * rank + static_cast<int>(i) + 7 * (round % 3); }

  std::vector<int> group_of(graph::Channel channel, int ranks) const {
    std::vector<int> group;
    if (graph::is_message(channel)) {
      const auto peer = static_cast<int>(graph::peer_rank(grid_, channel, rank_));
      return peer < rank_ ? std::vector{peer, rank_} : std::vector{rank_, peer};
    }
    for (int rank = 0; rank < ranks; ++rank) {
      if (graph::group_color(grid_, channel, rank) == graph::group_color(grid_, channel, rank_)) {
        group.push_back(rank);
      }
    }
    return group;
  }

  comm::CollectiveCall call_of(std::size_t c) const {
    const Call& call = calls_[c];
    const auto at = static_cast<std::int64_t>(c) * kSlot;
    const bool in_place = call.kind == comm::CollectiveKind::all_reduce || call.kind == comm::CollectiveKind::broadcast;
    comm::CollectiveCall made = {call.kind, call.dtype, kCount,     call.root,   in_place ? nullptr : from_ + at,
                                 to_ + at,  nullptr,    call.parts, call.inverse};
    if (call.kind == comm::CollectiveKind::exchange_rows) {
      made.table = {reinterpret_cast<const std::int32_t*>(from_ + at + kTable), call.ranks() * kExperts, kRows,
                    call.ranks() * kRows};
    }
    return made;
  }

  // The expert of a rank's row, in ascending order. In every third round all rows go to one.
  static std::int64_t expert_of(const Call& call, std::int64_t rank, std::int64_t row, int round) {
    const std::int64_t experts = call.ranks() * kExperts;
    return round % 3 == 2 ? experts - 1 : std::min(experts - 1, (rank + round) % 2 + row * kExperts);
  }

  void write_table(std::size_t c, int round) {
    auto* to = reinterpret_cast<std::int32_t*>(host_ + static_cast<std::int64_t>(c) * kSlot + kTable);
    for (std::int64_t rank = 0; rank < calls_[c].ranks(); ++rank) {
      for (std::int64_t expert = 0; expert <= calls_[c].ranks() * kExperts; ++expert, ++to) {
        *to = 0;
        for (std::int64_t row = 0; row < kRows; ++row) *to += expert_of(calls_[c], rank, row, round) < expert ? 1 : 0;
      }
    }
  }

  // The elements that an exchange of rows brings, in the order of (expert, giving rank, row), or back in that of rows.
  static std::vector<int> rows_of(const Call& call, int round) {
    std::vector<int> there, back(static_cast<std::size_t>(kRows * kCount));
    for (std::int64_t holder = 0; holder < call.ranks(); ++holder) {
      std::int64_t held = 0;
      for (std::int64_t expert = holder * kExperts; expert < (holder + 1) * kExperts; ++expert) {
        for (std::int64_t k = 0; k < call.ranks() * kRows; ++k) {
          const std::int64_t giver = k / kRows, row = k % kRows;
          if (expert_of(call, giver, row, round) != expert) continue;
          for (std::int64_t i = 0; i < kCount; ++i, ++held) {
            const int from_holder = value(call.group[static_cast<std::size_t>(holder)], held, round);
            if (giver == call.own) back[static_cast<std::size_t>(row * kCount + i)] = from_holder;
            if (holder != call.own) continue;
            there.push_back(value(call.group[static_cast<std::size_t>(giver)], row * kCount + i, round));
          }
        }
      }
    }
    return call.inverse ? back : there;
  }

  void enqueue_where(const std::function<bool(std::size_t)>& wanted) {
    device_.record(begin_, origin_);
    for (const auto& [stream, event] : ends_) device_.wait(stream, begin_);
    for (std::size_t c = 0; c < calls_.size(); ++c) {
      if (!wanted(c)) continue;
      transport_.enqueue(device_, calls_[c].channel, ends_[calls_[c].stream].stream, call_of(c));
    }
    for (const auto& [stream, event] : ends_) {
      device_.record(event, stream);
      device_.wait(origin_, event);
    }
  }

  void add_calls(graph::Channel channel, int ranks) {
    const std::vector<int> group = group_of(channel, ranks);
    const std::int64_t own = std::ranges::find(group, rank_) - group.begin();
    for (const DType dtype : kTypes) {
      if (graph::is_message(channel)) {
        const std::int64_t sender = execute::is_send(channel) ? own : 1 - own;
        calls_.push_back({channel, ends_.size() - 1, comm::CollectiveKind::broadcast, dtype, sender, group, own});
        continue;
      }
      for (const auto kind : {comm::CollectiveKind::all_reduce, comm::CollectiveKind::broadcast,
                              comm::CollectiveKind::reduce_scatter, comm::CollectiveKind::all_gather}) {
        const std::int64_t root = kind == comm::CollectiveKind::broadcast ? std::ssize(group) - 1 : 0;
        calls_.push_back({channel, ends_.size() - 1, kind, dtype, root, group, own});
      }
      for (const bool inverse : {false, true}) {
        calls_.push_back(
            {channel, ends_.size() - 1, comm::CollectiveKind::all_to_all, dtype, 0, group, own, kParts, inverse});
        if (group.size() == 1) continue;  // no rows leave a rank
        calls_.push_back(
            {channel, ends_.size() - 1, comm::CollectiveKind::exchange_rows, dtype, 0, group, own, 1, inverse});
      }
    }
  }

  static int result(const Call& call, std::int64_t i, int round) {
    const auto sum = [&](std::int64_t at) {
      int all = 0;
      for (const int rank : call.group) all += value(rank, at, round);
      return all;
    };
    switch (call.kind) {
      case comm::CollectiveKind::all_reduce:
        return sum(i);
      case comm::CollectiveKind::reduce_scatter:
        return sum(call.own * kCount + i);
      case comm::CollectiveKind::all_gather:
        return value(call.group[static_cast<std::size_t>(i / kCount)], i % kCount, round);
      case comm::CollectiveKind::broadcast:
        return value(call.group[static_cast<std::size_t>(call.root)], i, round);
      case comm::CollectiveKind::all_to_all: {
        const std::int64_t block = i / kCount, ranks = std::ssize(call.group), parts = call.parts;
        const std::int64_t peer = call.inverse ? block / parts : block % ranks;
        const std::int64_t part = call.inverse ? block % parts : block / ranks;
        const std::int64_t given = call.inverse ? part * ranks + call.own : call.own * parts + part;
        return value(call.group[static_cast<std::size_t>(peer)], given * kCount + i % kCount, round);
      }
      case comm::CollectiveKind::exchange_rows:
        return rows_of(call, round)[static_cast<std::size_t>(i)];
    }
    return -1;
  }

  // Element i of a call's buffer in host memory.
  template <class T>
  T& element(std::size_t call, std::int64_t i) const {
    return reinterpret_cast<T*>(host_ + static_cast<std::int64_t>(call) * kSlot)[i];
  }
  // Calls body(element of the call's type), of a number that every type holds exactly.
  template <class Body>
  void with_element(std::size_t call, std::int64_t i, const Body& body) const {
    switch (calls_[call].dtype) {
      case DType::i32:
        return body(element<std::int32_t>(call, i));
      case DType::i64:
        return body(element<std::int64_t>(call, i));
      case DType::f32:
        return body(element<float>(call, i));
      case DType::bf16:
        return body(element<bf16>(call, i));
    }
  }
  void set(std::size_t call, std::int64_t i, int number) {
    with_element(call, i, [&]<class T>(T& to) { to = static_cast<T>(static_cast<float>(number)); });
  }
  float get(std::size_t call, std::int64_t i) const {
    float number = 0;
    with_element(call, i, [&](const auto& from) { number = static_cast<float>(from); });
    return number;
  }

  graph::Grid grid_;
  int rank_;
  execute::CudaDevice& device_;
  std::vector<Call> calls_;
  std::vector<End> ends_;  // by channel
  execute::DeviceStream origin_;
  execute::DeviceEvent begin_, end_;
  std::byte *host_ = nullptr, *from_ = nullptr, *to_ = nullptr;
  execute::NcclTransport transport_;  // destroyed before the device
};

}  // namespace weft::testing
