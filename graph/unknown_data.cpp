#include "graph/unknown_data.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>

#include "graph/stream_order.h"

namespace weft::graph {
namespace {

constexpr std::size_t kMostCells = std::size_t{1} << 28;
constexpr std::uint32_t kNoPlace = 0xFFFFFFFF;

/// By queue: how many of its tasks, from its first on.
using Prefixes = std::vector<std::uint32_t>;

void take_more(Prefixes& of, const Prefixes& other) {
  for (std::size_t q = 0; q < of.size(); ++q) of[q] = std::max(of[q], other[q]);
}

class UnknownData {
 public:
  explicit UnknownData(const OpenClass& step) : step_(step), queue_(step.tasks.size(), kNoPlace), place_(queue_) {
    into_.resize(step.tasks.size());
    for (const OpenEdge& edge : step.edges) into_[edge.to].push_back(&edge);
    make_queues();
  }

  std::vector<OpenEdge> run() && {
    const std::size_t count = step_.tasks.size();
    if (count * queues_.size() > kMostCells) return all_order();
    recorded_.assign(count, Prefixes(queues_.size(), 0));
    held_ = recorded_;
    for (std::uint32_t i = 0; i < count; ++i) {
      find_recorded(i);
      is_barrier(i) ? order_after_all(i) : order_after_unknown(i);
    }
    return std::move(out_);
  }

 private:
  const OpenTask& task(std::uint32_t i) const { return step_.tasks[i]; }
  bool is_host(std::uint32_t i) const { return task(i).kind == OpenKind::host; }

  /// A stream is one queue as long as each of its tasks follows another one of it.
  void make_queues() {
    std::map<std::int32_t, std::uint32_t> open;  // by stream
    for (std::uint32_t i = 0; i < step_.tasks.size(); ++i) {
      const std::int32_t stream = task(i).stream;
      if (is_host(i) || stream < 0) continue;
      const bool follows = std::ranges::any_of(into_[i], [&](const OpenEdge* edge) {
        return is_stream_order(step_, *edge) && task(edge->from).stream == stream;
      });
      if (!follows || !open.contains(stream)) {
        open[stream] = static_cast<std::uint32_t>(queues_.size());
        queues_.emplace_back();
        last_unknown_.emplace_back();
      }
      queue_[i] = open[stream];
      place_[i] = static_cast<std::uint32_t>(queues_[queue_[i]].size());
      queues_[queue_[i]].push_back(i);
      std::vector<std::uint32_t>& unknown = last_unknown_[queue_[i]];
      unknown.push_back(!task(i).data_known ? place_[i] : unknown.empty() ? kNoPlace : unknown.back());
    }
  }

  std::vector<OpenEdge> all_order() const {
    std::vector<OpenEdge> out;
    for (const OpenEdge& edge : step_.edges) {
      if (is_recorded_order(step_, edge)) out.push_back(edge);
    }
    return out;
  }

  static bool is_by_begin(const OpenEdge& edge) {
    return edge.after_begin_ns.has_value() || edge.kind == EdgeKind::issued_before;
  }

  /// What a task had before it, once it is done itself.
  void take_end(Prefixes& of, const Prefixes& before, std::uint32_t from) const {
    take_more(of, before);
    if (queue_[from] == kNoPlace) return;
    std::uint32_t& own = of[queue_[from]];
    if (own >= place_[from]) own = std::max(own, place_[from] + 1);
  }

  void find_recorded(std::uint32_t i) {
    for (const OpenEdge* edge : into_[i]) {
      const bool is_neighbour = is_stream_order(step_, *edge) && queue_[edge->from] == queue_[i];
      if (is_neighbour || is_by_begin(*edge)) {
        take_more(recorded_[i], recorded_[edge->from]);
      } else {
        take_end(recorded_[i], recorded_[edge->from], edge->from);
      }
    }
    if (queue_[i] != kNoPlace) recorded_[i][queue_[i]] = place_[i];
  }

  bool is_barrier(std::uint32_t i) const {
    if (!is_host(i)) return !task(i).data_known;
    return std::ranges::any_of(into_[i],
                               [&](const OpenEdge* edge) { return !is_host(edge->from) && !is_by_begin(*edge); });
  }

  template <class F>
  void for_each_held(std::uint32_t i, F take) const {
    for (const OpenEdge* edge : into_[i]) {
      if (!is_recorded_order(step_, *edge)) take(*edge);
    }
  }

  bool is_held(std::uint32_t before, std::uint32_t i) const {
    bool held = false;
    for_each_held(i, [&](const OpenEdge& edge) { held = held || (edge.from == before && !is_by_begin(edge)); });
    return held;
  }

  void take_held(std::uint32_t i) {
    for_each_held(i, [&](const OpenEdge& edge) {
      is_by_begin(edge) ? take_more(held_[i], held_[edge.from]) : take_end(held_[i], held_[edge.from], edge.from);
    });
  }

  void order_after_all(std::uint32_t i) {
    take_held(i);
    for (std::size_t q = 0; q < queues_.size(); ++q) {
      for (std::uint32_t n = recorded_[i][q]; n > held_[i][q]; --n) {
        const std::uint32_t before = queues_[q][n - 1];
        if (!is_held(before, i)) add(before, i);
        if (is_barrier(before)) take_end(held_[i], held_[before], before);
      }
      held_[i][q] = recorded_[i][q];
    }
  }

  /// What precedes an edge that holds has all unknown tasks before it that it had in the recording.
  void order_after_unknown(std::uint32_t i) {
    take_held(i);
    Prefixes told(queues_.size(), 0);
    for_each_held(i, [&](const OpenEdge& edge) {
      is_by_begin(edge) ? take_more(told, recorded_[edge.from]) : take_end(told, recorded_[edge.from], edge.from);
    });
    for (std::size_t q = 0; q < queues_.size(); ++q) {
      const std::uint32_t count = recorded_[i][q];
      const std::uint32_t last = count == 0 ? kNoPlace : last_unknown_[q][count - 1];
      if (last == kNoPlace || last < told[q]) continue;
      const std::uint32_t before = queues_[q][last];
      add(before, i);
      take_end(told, recorded_[before], before);
      take_end(held_[i], held_[before], before);
    }
  }

  void add(std::uint32_t from, std::uint32_t to) { out_.push_back(stream_order_edge(step_, from, to)); }

  const OpenClass& step_;
  std::vector<std::uint32_t> queue_, place_;        // by task; kNoPlace: on no stream of a device
  std::vector<std::vector<const OpenEdge*>> into_;  // by task
  std::vector<std::vector<std::uint32_t>> queues_;  // their tasks
  std::vector<std::vector<std::uint32_t>>
      last_unknown_;                       // by queue and place: the last unknown one's place up to there
  std::vector<Prefixes> recorded_, held_;  // by task: what was done before it, and what edges that hold put before it
  std::vector<OpenEdge> out_;
};

}  // namespace

std::vector<OpenEdge> order_of_unknown_data(const OpenClass& step) {
  return UnknownData(step).run();
}

}  // namespace weft::graph
