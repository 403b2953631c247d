#include "runtime/execute/device/state_pieces.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace weft::execute {
namespace {

// Of the state, from its begin.
struct StateRange {
  std::int64_t begin = 0, end = 0;
};

std::vector<StateRange> changed_by(const graph::Graph& graph, const graph::Task& task, const State& state) {
  std::vector<StateRange> ranges;
  for (const graph::Access& access : task.accesses) {
    const graph::Tensor& tensor = graph.tensor(access.view.tensor);
    const bool kept = tensor.role == graph::Role::parameter || tensor.role == graph::Role::optimizer_state;
    if (!kept || access.mode == graph::AccessMode::read) continue;
    const std::int64_t begin = state.offset(tensor.name);
    ranges.push_back({begin, begin + tensor.bytes()});
  }
  return ranges;
}

// Ascending, without overlaps; neighbours are one where nothing is between them.
std::vector<StateRange> joined(std::vector<StateRange> ranges) {
  constexpr std::int64_t kPadding = 128;  // less than this, as State aligns its tensors
  std::ranges::sort(ranges, {}, &StateRange::begin);
  std::vector<StateRange> all;
  for (const StateRange& range : ranges) {
    if (!all.empty() && range.begin - all.back().end < kPadding) {
      all.back().end = std::max(all.back().end, range.end);
    } else {
      all.push_back(range);
    }
  }
  return all;
}

// Calls body(step, range) for all that the steps of the plans change, in their order.
template <class Body>
void for_each_change(std::span<const std::unique_ptr<DevicePlan>> plans, const State& state, const Body& body) {
  for (const auto& loaded : plans) {
    const graph::Graph& graph = *loaded->plan->graph;
    for (std::size_t i = 0; i < loaded->steps.size(); ++i) {
      for (const StateRange& range : changed_by(graph, graph.task(loaded->plan->sequence[i]), state)) {
        body(loaded->steps[i], range);
      }
    }
  }
}

// A fused task begins with the first of its tasks.
void hand_to_first(DevicePlan& loaded) {
  std::vector<DeviceStep*> first(loaded.plan->streams.size());
  for (DeviceStep& step : loaded.steps) {
    DeviceStep*& of_stream = first[step.stream.index()];
    if (!step.part_of_fused) of_stream = &step;
    of_stream->state_parts = std::max(of_stream->state_parts, step.state_parts);
  }
}

}  // namespace

std::vector<StatePart> parts_of(const StatePart& block, std::int64_t most) {
  std::vector<StatePart> parts;
  for (std::int64_t at = 0; at < block.bytes; at += most) {
    parts.push_back({block.host + at, block.device + at, std::min(most, block.bytes - at)});
  }
  return parts;
}

void StatePieces::make_room(std::span<const StatePart> parts) {
  if (!stream_.valid()) stream_ = device_.add_stream("state", StreamPriority::normal);
  std::int64_t most = 0;
  for (const StatePart& part : parts) most = std::max(most, part.bytes);
  if (most <= piece_bytes_) return;
  finish();
  for (Piece& piece : pieces_) {
    piece.pinned = device_.allocate_pinned(most);
    if (!piece.copied.valid()) piece.copied = device_.add_event(false);
  }
  piece_bytes_ = most;
}

void StatePieces::bring(std::span<const StatePart> parts) {
  make_room(parts);
  finish();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Piece& piece = pieces_[i % pieces_.size()];
    if (i >= pieces_.size()) device_.synchronize(piece.copied);
    std::memcpy(piece.pinned, parts[i].host, static_cast<std::size_t>(parts[i].bytes));
    device_.copy(stream_, parts[i].device, piece.pinned, parts[i].bytes);
    device_.record(piece.copied, stream_);
  }
  device_.synchronize(stream_);
}

std::uint64_t StatePieces::take(std::span<const StatePart> parts) {
  make_room(parts);
  const std::uint64_t before = begun_ + waiting_.size();
  waiting_.insert(waiting_.end(), parts.begin(), parts.end());
  begin_more();
  return before;
}

void StatePieces::begin_more() {
  for (; begun_ - emptied_ < pieces_.size() && !waiting_.empty(); ++begun_) {
    Piece& next = piece(begun_);
    next.part = waiting_.front();
    waiting_.pop_front();
    device_.copy(stream_, next.pinned, next.part.device, next.part.bytes);
    device_.record(next.copied, stream_);
  }
}

void StatePieces::empty_oldest() {
  const Piece& oldest = piece(emptied_);
  device_.synchronize(oldest.copied);
  std::memcpy(oldest.part.host, oldest.pinned, static_cast<std::size_t>(oldest.part.bytes));
  ++emptied_;
  begin_more();
}

void StatePieces::until_left(std::uint64_t count) {
  while (begun_ < count) empty_oldest();
  if (emptied_ < count) device_.synchronize(piece(count - 1).copied);
}

void StatePieces::finish() {
  while (emptied_ < begun_) empty_oldest();
}

std::vector<StatePart> find_state_parts(std::span<const std::unique_ptr<DevicePlan>> plans, const PlanMemory& memory,
                                        std::int64_t most) {
  const State& state = *memory.state;
  std::vector<StateRange> changed;
  for_each_change(plans, state, [&](const DeviceStep&, const StateRange& range) { changed.push_back(range); });
  std::vector<StatePart> parts;  // by address
  for (const StateRange& range : joined(std::move(changed))) {
    const StatePart block{state.begin() + range.begin, memory.of_state + range.begin, range.end - range.begin};
    const std::vector<StatePart> own = parts_of(block, most);
    parts.insert(parts.end(), own.begin(), own.end());
  }
  // Calls body(index by address) of each part of a range.
  const auto of_range = [&](const StateRange& range, const auto& body) {
    const auto ends_before = [&](const StatePart& part) {
      return part.host + part.bytes <= state.begin() + range.begin;
    };
    auto at = std::ranges::partition_point(parts, ends_before);
    for (; at != parts.end() && at->host < state.begin() + range.end; ++at) {
      body(static_cast<std::size_t>(at - parts.begin()));
    }
  };
  std::vector<std::size_t> order, place(parts.size(), parts.size());
  for_each_change(plans, state, [&](DeviceStep& step, const StateRange& range) {
    of_range(range, [&](std::size_t part) {
      if (place[part] == parts.size()) {
        place[part] = order.size();
        order.push_back(part);
      }
      step.state_parts = std::max(step.state_parts, place[part] + 1);
    });
  });
  for (const auto& loaded : plans) hand_to_first(*loaded);
  std::vector<StatePart> ordered;
  for (const std::size_t part : order) ordered.push_back(parts[part]);
  return ordered;
}

}  // namespace weft::execute
