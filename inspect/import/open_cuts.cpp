#include "inspect/import/open_cuts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace weft::inspect {
namespace {

class OpenCuts {
 public:
  explicit OpenCuts(graph::OpenClass& step) : step_(step) {
    for (const graph::OpenEdge& edge : step.edges) {
      if (cuts(edge)) cuts_.try_emplace(cut_of(edge), 0U);
    }
  }

  void run() && {
    if (cuts_.empty()) return;
    place_pieces();
    for (graph::OpenEdge edge : step_.edges) {
      const bool cut = cuts(edge);
      const std::uint32_t to = first_[edge.to];
      edge.from = cut ? cuts_.at(cut_of(edge)) : last_before(edge.from, to);
      edge.to = to;
      if (cut) {
        edge.kind = graph::EdgeKind::completes_before;
        edge.after_begin_ns.reset();
      }
      edges_.push_back(edge);
    }
    for (const std::vector<std::uint32_t>& pieces : pieces_) {
      // No policy may move them apart.
      for (std::size_t i = 1; i < pieces.size(); ++i) order(pieces[i - 1], pieces[i], graph::EdgeSource::one_operator);
    }
    std::ranges::sort(edges_, {}, [](const graph::OpenEdge& e) { return std::tuple(e.to, e.from, e.source); });
    step_.edges = std::move(edges_);
    step_.tasks = std::move(tasks_);
  }

 private:
  using Cut = std::pair<std::uint32_t, double>;  // a task, and the time after its begin at which another can begin
  struct Piece {
    std::uint32_t before;  // the old task before which it stands
    double begin;          // after that of the old task that it belongs to
    std::uint32_t of;
    double end;
  };

  /// What meets other ranks is one task.
  bool cuts(const graph::OpenEdge& edge) const {
    return edge.after_begin_ns && !graph::communicates(step_.tasks[edge.from].kind);
  }
  double length_of(std::uint32_t task) const { return *step_.tasks[task].end_ns - *step_.tasks[task].begin_ns; }

  /// Nothing can go on at the very begin of a task, since no piece ends there.
  Cut cut_of(const graph::OpenEdge& edge) const {
    return {edge.from, std::max(*edge.after_begin_ns, std::min(1.0, length_of(edge.from)))};
  }

  /// By the task before which each piece stands, and by their times.
  std::vector<Piece> further_pieces() const {
    std::vector<Piece> out;
    for (auto at = cuts_.begin(); at != cuts_.end();) {
      const std::uint32_t of = at->first.first;
      const double length = length_of(of), from = *step_.tasks[of].begin_ns;
      const auto add = [&](double begin, double end) {
        std::uint32_t before = of + 1;
        while (before < step_.tasks.size() && *step_.tasks[before].begin_ns < from + begin) ++before;
        out.push_back({before, begin, of, end});
      };
      for (; at != cuts_.end() && at->first.first == of; ++at) {
        const double begin = at->first.second;
        if (begin > length) add(length, begin);
        const auto next = std::next(at);
        const bool more = next != cuts_.end() && next->first.first == of && next->first.second < length;
        if (begin < length) add(begin, more ? next->first.second : length);
      }
    }
    std::ranges::stable_sort(out, {}, [&](const Piece& piece) {
      return std::pair(piece.before, *step_.tasks[piece.of].begin_ns + piece.begin);
    });
    return out;
  }

  void place_pieces() {
    const std::vector<Piece> pieces = further_pieces();
    pieces_.resize(step_.tasks.size());
    auto piece = pieces.begin();
    for (std::uint32_t i = 0; i <= step_.tasks.size(); ++i) {
      for (; piece != pieces.end() && piece->before == i; ++piece) place(*piece);
      if (i == step_.tasks.size()) break;
      first_.push_back(static_cast<std::uint32_t>(tasks_.size()));
      pieces_[i].push_back(first_.back());
      graph::OpenTask task = step_.tasks[i];
      const auto cut = cuts_.lower_bound({i, 0});
      if (cut != cuts_.end() && cut->first.first == i && cut->first.second <= length_of(i)) {
        shorten(task, 0, cut->first.second);
        cut->second = first_.back();
      }
      tasks_.push_back(std::move(task));
    }
  }

  void place(const Piece& piece) {
    const auto index = static_cast<std::uint32_t>(tasks_.size());
    graph::OpenTask task = step_.tasks[piece.of];
    const bool way = piece.begin >= length_of(piece.of);
    if (way) {
      task = {};
      task.kind = graph::OpenKind::host;
      task.operation = "wake";
      task.stream = way_stream();
      task.begin_ns = step_.tasks[piece.of].begin_ns;
      // They stand in the order of their stream.
      if (last_way_ != kNone) order(last_way_, index, graph::EdgeSource::stream);
      last_way_ = index;
      edges_.push_back({pieces_[piece.of].back(), index, graph::EdgeKind::completes_before, graph::EdgeSource::launch});
    } else {
      pieces_[piece.of].push_back(index);
    }
    task.name = fmt::format("{} {}, {}", way ? "way from" : "rest of", step_.tasks[piece.of].name, ++parts_[piece.of]);
    shorten(task, piece.begin, piece.end);
    if (const auto ends = cuts_.find({piece.of, piece.end}); ends != cuts_.end()) ends->second = index;
    tasks_.push_back(std::move(task));
  }

  static void shorten(graph::OpenTask& task, double begin, double end) {
    const double from = *task.begin_ns;
    task.begin_ns = from + begin;
    task.end_ns = from + end;
    task.ns = end - begin;
  }

  std::int32_t way_stream() {
    if (way_stream_ < 0) {
      way_stream_ = static_cast<std::int32_t>(step_.streams.size());
      step_.streams.push_back({"wakes of threads", true});
    }
    return way_stream_;
  }

  /// The last piece of a task that stands before another task.
  std::uint32_t last_before(std::uint32_t task, std::uint32_t other) const {
    const std::vector<std::uint32_t>& pieces = pieces_[task];
    const auto after = std::ranges::lower_bound(pieces, other);
    return after == pieces.begin() ? pieces.front() : *(after - 1);
  }

  void order(std::uint32_t before, std::uint32_t after, graph::EdgeSource source) {
    edges_.push_back({before, after, graph::EdgeKind::completes_before, source});
  }

  static constexpr std::uint32_t kNone = UINT32_MAX;
  graph::OpenClass& step_;
  std::map<Cut, std::uint32_t> cuts_;               // and the piece that ends there
  std::vector<graph::OpenTask> tasks_;              // all pieces
  std::vector<graph::OpenEdge> edges_;              // between them
  std::vector<std::uint32_t> first_;                // by task: its first piece
  std::vector<std::vector<std::uint32_t>> pieces_;  // by task, without ways
  std::map<std::uint32_t, int> parts_;
  std::int32_t way_stream_ = -1;
  std::uint32_t last_way_ = kNone;
};

}  // namespace

void cut_at_delays(graph::OpenClass& step) {
  OpenCuts(step).run();
}

}  // namespace weft::inspect
