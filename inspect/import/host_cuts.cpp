// Tasks of the host cut into pieces, so that an edge leaves each at its end.
#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "inspect/import/host_work.h"

namespace weft::inspect {
namespace {

using graph::EdgeSource;

class HostCuts {
 public:
  explicit HostCuts(HostWork& host) : host_(host), resumes_(host.tasks.size()) {
    for (std::size_t i = 0; i < host.tasks.size(); ++i) resumes_[i] = host.tasks[i].kind == HostTaskKind::wait;
    for (const FoundEdge& edge : host.between) {
      if (edge.source != EdgeSource::stream) resumes_[edge.to] = true;
    }
  }

  void run() && {
    for (const std::vector<FoundEdge>* edges : {&host_.between, &host_.launches}) {
      for (const FoundEdge& edge : *edges) {
        if (edge.after_begin) cuts_.push_back(cut_of(edge));
      }
    }
    std::ranges::sort(cuts_);
    cuts_.erase(std::unique(cuts_.begin(), cuts_.end()), cuts_.end());
    cut_tasks();
    std::vector<FoundEdge> between = std::exchange(host_.between, {});
    for (const FoundEdge& edge : between) {
      const std::uint32_t from = edge.after_begin ? piece_at(cut_of(edge)) : last_.at(edge.from);
      host_.between.push_back({from, first_.at(edge.to), edge.source, edge.confidence});
    }
    for (std::uint32_t i = 0; i + 1 < pieces_.size(); ++i) {
      if (pieces_[i + 1].part > 0) host_.between.push_back({i, i + 1, EdgeSource::stream});
    }
    for (FoundEdge& edge : host_.launches) {
      edge.from = edge.after_begin ? piece_at(cut_of(edge)) : last_.at(edge.from);
      edge.after_begin.reset();
    }
    for (FoundEdge& edge : host_.waits) edge.to = first_.at(edge.to);
    host_.tasks = std::move(pieces_);
  }

 private:
  using Cut = std::pair<std::uint32_t, std::int64_t>;  // a task, and a time at which a piece of it ends

  Cut cut_of(const FoundEdge& edge) const {
    std::uint32_t at = edge.from;
    const std::vector<HostTask>& tasks = host_.tasks;
    // Nothing can go on at the very begin of a task, since no piece ends there.
    std::int64_t time = std::max(tasks[at].begin + *edge.after_begin, std::min(tasks[at].begin + 1, tasks[at].end));
    while (time > tasks[at].end) {
      const std::uint32_t next = at + 1;
      if (next >= tasks.size() || tasks[next].thread != tasks[at].thread) break;
      if (resumes_[next] || tasks[next].begin > tasks[at].end) {
        time = std::max(tasks[at].end, std::min(time, tasks[next].begin));
        break;
      }
      // Clocks are no finer than this, and a piece less is a task less.
      if (time <= tasks[next].begin + kRounding) {
        time = tasks[at].end;
        break;
      }
      at = next;
    }
    return {at, time};
  }

  void cut_tasks() {
    auto cut = cuts_.begin();
    for (std::uint32_t i = 0; i < host_.tasks.size(); ++i) {
      HostTask piece = host_.tasks[i];
      const std::int64_t end = piece.end;
      first_.push_back(static_cast<std::uint32_t>(pieces_.size()));
      for (; cut != cuts_.end() && cut->first == i; ++cut) {
        // The last piece before the task's own end, and then what comes after it, such as a launch's way to the device.
        if (cut->second > end && piece.begin < end) add(piece, end);
        add(piece, cut->second);
        piece_of_cut_.push_back(static_cast<std::uint32_t>(pieces_.size()) - 1);
      }
      if (piece.part == 0 || piece.begin < end) add(piece, end);
      last_.push_back(static_cast<std::uint32_t>(pieces_.size()) - 1);
    }
  }

  void add(HostTask& piece, std::int64_t end) {
    piece.end = end;
    pieces_.push_back(piece);
    piece.begin = end;
    ++piece.part;
  }

  std::uint32_t piece_at(const Cut& cut) const {
    return piece_of_cut_[static_cast<std::size_t>(std::ranges::lower_bound(cuts_, cut) - cuts_.begin())];
  }

  HostWork& host_;
  std::vector<bool> resumes_;  // by task: it begins when something that isn't its thread lets it
  std::vector<Cut> cuts_;
  std::vector<std::uint32_t> piece_of_cut_;
  std::vector<HostTask> pieces_;
  std::vector<std::uint32_t> first_, last_;  // by task: its pieces
};

}  // namespace

void cut_at_wakes(HostWork& host) {
  HostCuts(host).run();
}

}  // namespace weft::inspect
