#include "inspect/report/trace_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace weft::inspect {
namespace {

class Checker {
 public:
  Checker(const plan::Recording& recording, std::size_t most) : recording_(recording), most_(most) {
    for (std::uint32_t i = 0; i < recording.tasks.size(); ++i) {
      const std::uint32_t stream = recording.tasks[i].stream;
      if (recording.streams[stream].communicates()) collectives_[stream].push_back(i);
    }
  }

  TraceCheck run() {
    for (const plan::RecordedRank& rank : recording_.ranks) {
      const plan::RecordedStep* before = nullptr;
      for (const plan::RecordedStep& step : rank.steps) {
        where_ = fmt::format("rank {}, step {}", rank.rank, step.step);
        check_streams(step);
        check_edges(step, before != nullptr && before->step + 1 == step.step ? before : nullptr);
        check_collectives(rank, step);
        before = &step;
      }
    }
    return std::move(result_);
  }

 private:
  template <class... Values>
  void violated(fmt::format_string<Values...> format, Values&&... values) {
    if (++result_.violations > most_) return;
    result_.messages.push_back(where_ + ": " + fmt::format(format, std::forward<Values>(values)...));
  }

  const std::string& name(std::uint32_t task) const { return recording_.tasks[task].name; }

  void check_streams(const plan::RecordedStep& step) {
    std::vector<std::optional<std::uint32_t>> last(recording_.streams.size());
    for (std::uint32_t i = 0; i < recording_.tasks.size(); ++i) {
      ++result_.tasks;
      const std::uint32_t stream = recording_.tasks[i].stream;
      const plan::TaskTime& time = step.times[i];
      if (time.begin < step.begin || time.end > step.end) {
        violated("'{}' runs {} ns outside of the step", name(i),
                 std::max(step.begin - time.begin, time.end - step.end));
      }
      if (const std::optional<std::uint32_t> other = std::exchange(last[stream], i)) {
        const plan::RecordedStream& on = recording_.streams[stream];
        const plan::TaskTime& earlier = step.times[*other];
        const std::int64_t early = (on.communicates() ? earlier.begin : earlier.end) - time.begin;
        if (early > 0) {
          violated("'{}' begins {} ns before '{}', its predecessor on stream {}, has {}", name(i), early, name(*other),
                   on.name, on.communicates() ? "begun" : "ended");
        }
      }
    }
  }

  void check_edges(const plan::RecordedStep& step, const plan::RecordedStep* before) {
    for (const plan::RecordedEdge& edge : recording_.edges) {
      if (edge.kind != graph::EdgeKind::completes_before || (edge.distance > 0 && before == nullptr)) continue;
      ++result_.edges;
      const std::int64_t ended = (edge.distance > 0 ? before : &step)->times[edge.from].end;
      if (const std::int64_t early = ended - step.times[edge.to].begin; early > 0) {
        violated("'{}' begins {} ns before '{}'{} has ended ({})", name(edge.to), early, name(edge.from),
                 edge.distance > 0 ? " of the step before" : "", graph::to_string(edge.reason));
      }
    }
  }

  // Each stream of collectives against the first rank that was traced in that step.
  void check_collectives(const plan::RecordedRank& rank, const plan::RecordedStep& step) {
    for (const auto& [stream, tasks] : collectives_) {
      result_.collectives += tasks.size();
      std::vector<std::uint32_t> order = tasks;
      std::ranges::stable_sort(order, {}, [&](std::uint32_t task) { return step.times[task].begin; });
      const auto [first, fresh] = orders_.try_emplace({step.step, stream}, First{rank.rank, order});
      if (fresh) continue;
      const auto [here, there] = std::ranges::mismatch(order, first->second.order);
      if (here == order.end()) continue;
      violated("collective {} on stream {} is '{}', but '{}' on rank {}", here - order.begin() + 1,
               recording_.streams[stream].name, name(*here), name(*there), first->second.rank);
    }
  }

  struct First {
    int rank = 0;
    std::vector<std::uint32_t> order;
  };

  const plan::Recording& recording_;
  const std::size_t most_;
  std::string where_;
  TraceCheck result_;
  std::map<std::uint32_t, std::vector<std::uint32_t>> collectives_;  // by stream, in the plan's order
  std::map<std::pair<std::int64_t, std::uint32_t>, First> orders_;   // by step and stream, as they began
};

}  // namespace

TraceCheck check_recording(const plan::Recording& recording, std::size_t most) {
  return Checker(recording, most).run();
}

}  // namespace weft::inspect
