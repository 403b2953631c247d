#include "runtime/plan/plan_waits.h"

#include <algorithm>

#include "base/assertions.h"

namespace weft::plan {
namespace {

/// The plan's added edges, grouped by target.
class AddedEdges {
 public:
  explicit AddedEdges(const Plan& plan) : edges_(plan.added_edges) {
    std::ranges::stable_sort(edges_, {}, &graph::Edge::to);
    begin_.assign(plan.graph->tasks().size() + 1, 0);
    for (const graph::Edge& edge : edges_) ++begin_[edge.to.index() + 1];
    for (std::size_t i = 1; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
  }
  std::span<const graph::Edge> into(graph::TaskId task) const {
    const std::uint32_t first = begin_[task.index()];
    return std::span(edges_).subspan(first, begin_[task.index() + 1] - first);
  }

 private:
  std::vector<graph::Edge> edges_;
  std::vector<std::uint32_t> begin_;
};

}  // namespace

HappensBefore::HappensBefore(const Plan& plan)
    : tasks_(plan.graph->tasks().size()),
      streams_(plan.streams.size()),
      clocks_(2 * tasks_ * streams_),
      waits_(tasks_) {
  const AddedEdges added(plan);
  std::vector<std::uint32_t> length(streams_);
  for (std::size_t s = 0; s < streams_; ++s) length[s] = static_cast<std::uint32_t>(plan.streams[s].entries.size());

  std::vector<std::uint32_t> passed(streams_ * streams_);  // [stream]: its clock after its latest entry
  std::vector<std::uint32_t> need(streams_);               // entries of each stream that the task must wait for
  std::vector<const std::uint32_t*> source(streams_);      // clock of the last such entry, without the entry itself
  for (std::uint32_t step = 0; step < 2; ++step) {
    for (const graph::TaskId task : plan.sequence) {
      const Position at = plan.position[task.index()];
      const std::size_t own = at.stream.index();
      std::uint32_t* const now = passed.data() + own * streams_;

      std::ranges::fill(need, 0);
      bool news = false;
      const auto require = [&](const graph::Edge& edge) {
        if (edge.distance > step) return;
        const Position from = plan.position[edge.from.index()];
        const std::size_t s = from.stream.index();
        const std::uint32_t from_step = step - edge.distance;
        const std::uint32_t count = from_step * length[s] + from.entry + 1;
        assert_that("the sequence is a topological order of all edges",
                    [&] { return count <= passed[s * streams_ + s]; });
        if (s == own || count <= now[s] || count <= need[s]) return;
        need[s] = count;
        source[s] = clocks_.data() + (from_step * tasks_ + edge.from.index()) * streams_;
        news = true;
      };
      for (const graph::Edge& edge : plan.graph->in_edges(task)) require(edge);
      for (const graph::Edge& edge : added.into(task)) require(edge);

      if (news) {
        for (std::size_t s = 0; s < streams_; ++s) {
          if (need[s] == 0) continue;
          bool implied = false;
          for (std::size_t other = 0; other < streams_ && !implied; ++other) {
            implied = other != s && need[other] != 0 && source[other][s] >= need[s];
          }
          if (implied || step == 0) continue;
          const std::uint32_t last = need[s] - 1;
          const bool this_step = last >= length[s];
          waits_[task.index()].push_back(
              {StreamId(s), this_step ? last - length[s] : last, static_cast<std::uint8_t>(this_step ? 0 : 1)});
        }
        for (std::size_t s = 0; s < streams_; ++s) {
          if (need[s] == 0) continue;
          for (std::size_t i = 0; i < streams_; ++i) now[i] = std::max(now[i], source[s][i]);
        }
        for (std::size_t s = 0; s < streams_; ++s) now[s] = std::max(now[s], need[s]);
      }
      std::copy_n(now, streams_, clocks_.data() + (step * tasks_ + task.index()) * streams_);
      now[own] = step * length[own] + at.entry + 1;
    }
  }
}

}  // namespace weft::plan
