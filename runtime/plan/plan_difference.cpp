#include "runtime/plan/plan_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace weft::plan {
namespace {

using Names = std::unordered_set<std::string_view>;

Names names_of(const FiledPlan& file) {
  Names names;
  for (const auto& placed : file.sequence) names.insert(placed.task);
  return names;
}

// Marks a longest increasing subsequence of the values, found by patience sorting (C. Schensted, 1961).
std::vector<bool> rising(const std::vector<std::size_t>& values) {
  std::vector<std::size_t> tops, before(values.size(), SIZE_MAX);  // tops: by pile, the index of its top value
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto pile = std::ranges::lower_bound(tops, values[i], {}, [&](std::size_t top) { return values[top]; });
    if (pile != tops.begin()) before[i] = *(pile - 1);
    if (pile == tops.end()) {
      tops.push_back(i);
    } else {
      *pile = i;
    }
  }
  std::vector<bool> stays(values.size(), false);
  for (std::size_t i = tops.empty() ? SIZE_MAX : tops.back(); i != SIZE_MAX; i = before[i]) stays[i] = true;
  return stays;
}

std::string listed(const std::string& title, const std::vector<std::string>& lines, std::size_t most) {
  if (lines.empty()) return "";
  std::string text = title + "\n";
  for (std::size_t i = 0; i < std::min(most, lines.size()); ++i) text += "  " + lines[i] + "\n";
  if (lines.size() > most) text += fmt::format("  … and {} more\n", lines.size() - most);
  return text;
}

std::string tasks(std::size_t count) {
  return count == 1 ? "1 task" : fmt::format("{} tasks", count);
}

std::vector<std::string> tasks_only_in(const FiledPlan& file, const Names& others) {
  std::vector<std::string> names;
  for (const auto& placed : file.sequence) {
    if (!others.contains(placed.task)) names.push_back(placed.task);
  }
  return names;
}

std::vector<PlacedName> placed_names(const FiledPlan& file) {
  std::vector<PlacedName> names;
  for (const auto& placed : file.sequence) names.push_back({placed.task, file.streams[placed.stream].name});
  return names;
}

using EdgeKey = std::tuple<std::string, std::string, graph::EdgeKind, std::uint8_t>;

std::set<EdgeKey> edges_of(const FiledPlan& file) {
  std::set<EdgeKey> edges;
  for (const auto& edge : file.added_edges) edges.emplace(edge.from, edge.to, edge.kind, edge.distance);
  return edges;
}

std::vector<std::string> edges_only_in(const std::set<EdgeKey>& edges, const std::set<EdgeKey>& others) {
  std::vector<std::string> lines;
  for (const EdgeKey& edge : edges) {
    if (!others.contains(edge)) lines.push_back(fmt::format("{} → {}", std::get<0>(edge), std::get<1>(edge)));
  }
  return lines;
}

std::string rewrites_text(const std::vector<Rewrite>& rewrites) {
  return rewrites.empty() ? "none" : to_string(rewrites);
}

std::string changed(const char* what, const std::string& before, const std::string& after) {
  return before == after ? std::string() : fmt::format("{}: {} → {}\n", what, before, after);
}

void add(PlanDifference& out, const FiledPlan& a, const FiledPlan& b, const std::string& stage) {
  const auto extend = [](std::vector<std::string>& list, const std::vector<std::string>& more) {
    list.insert(list.end(), more.begin(), more.end());
  };
  out.scratch_bytes_a = std::max(out.scratch_bytes_a, a.scratch_bytes);
  out.scratch_bytes_b = std::max(out.scratch_bytes_b, b.scratch_bytes);
  out.other_graph = out.other_graph || a.graph_fingerprint != b.graph_fingerprint;
  extend(out.only_a, tasks_only_in(a, names_of(b)));
  extend(out.only_b, tasks_only_in(b, names_of(a)));
  const std::vector<PlacedName> names_a = placed_names(a), names_b = placed_names(b);
  std::vector<StreamMoves> moved;
  for (const Stream& stream : b.streams) moved.push_back({stage + stream.name, stream.compute, {}});
  for (const MovedTask& task : moved_tasks(names_a, names_b)) {
    PlanMove move{std::string(names_b[task.in_b].task), stage + std::string(names_a[task.in_a].stream),
                  stage + std::string(names_b[task.in_b].stream), ""};
    if (task.other_stream) {
      out.other_stream.push_back(std::move(move));
      continue;
    }
    if (task.follows) move.after = names_b[*task.follows].task;
    std::ranges::find(moved, move.to_stream, &StreamMoves::stream)->moves.push_back(std::move(move));
  }
  std::erase_if(moved, [](const StreamMoves& on) { return on.moves.empty(); });
  out.moved.insert(out.moved.end(), moved.begin(), moved.end());
  const std::set<EdgeKey> edges_a = edges_of(a), edges_b = edges_of(b);
  extend(out.edges_only_a, edges_only_in(edges_a, edges_b));
  extend(out.edges_only_b, edges_only_in(edges_b, edges_a));
}

}  // namespace

std::vector<MovedTask> moved_tasks(std::span<const PlacedName> a, std::span<const PlacedName> b) {
  std::unordered_map<std::string_view, std::size_t> in_a;
  for (std::size_t i = 0; i < a.size(); ++i) in_a.emplace(a[i].task, i);
  std::map<std::string_view, std::vector<MovedTask>> common;  // by stream
  std::vector<MovedTask> moved;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const auto known = in_a.find(b[i].task);
    if (known == in_a.end()) continue;
    if (a[known->second].stream != b[i].stream) {
      moved.push_back({known->second, i, true, std::nullopt});
      continue;
    }
    std::vector<MovedTask>& on_stream = common[b[i].stream];
    on_stream.push_back({known->second, i, false,
                         on_stream.empty() ? std::nullopt : std::optional<std::size_t>(on_stream.back().in_b)});
  }
  for (const auto& [stream, on_stream] : common) {
    std::vector<std::size_t> places;
    for (const MovedTask& task : on_stream) places.push_back(task.in_a);
    const std::vector<bool> stays = rising(places);
    for (std::size_t i = 0; i < on_stream.size(); ++i) {
      if (!stays[i]) moved.push_back(on_stream[i]);
    }
  }
  std::ranges::sort(moved, {}, &MovedTask::in_b);
  return moved;
}

bool PlanDifference::same() const {
  return rewrites_a == rewrites_b && scratch_bytes_a == scratch_bytes_b && !other_graph && only_a.empty() &&
         only_b.empty() && other_stream.empty() && moved.empty() && edges_only_a.empty() && edges_only_b.empty();
}

PlanDifference difference_of(const PlanFile& a, const PlanFile& b) {
  PlanDifference out{.policy_a = a.front().policy,
                     .policy_b = b.front().policy,
                     .rewrites_a = rewrites_text(a.front().rewrites),
                     .rewrites_b = rewrites_text(b.front().rewrites)};
  const std::size_t classes = std::max(a.size(), b.size());
  const auto plan_of = [](const PlanFile& file, std::size_t k) { return k < file.size() ? file[k] : FiledPlan(); };
  for (std::size_t k = 0; k < classes; ++k) {
    add(out, plan_of(a, k), plan_of(b, k), classes > 1 ? fmt::format("stage {} ", k) : "");
  }
  return out;
}

std::string describe(const PlanDifference& difference, std::size_t most) {
  if (difference.same()) return "";
  const PlanDifference& d = difference;
  std::string text = changed("policy", d.policy_a, d.policy_b) + changed("rewrites", d.rewrites_a, d.rewrites_b) +
                     changed("scratch bytes", std::to_string(d.scratch_bytes_a), std::to_string(d.scratch_bytes_b));
  if (d.other_graph) text += "the graphs differ (sizes, or tasks)\n";
  text += listed(fmt::format("{} only in the first plan:", tasks(d.only_a.size())), d.only_a, most);
  text += listed(fmt::format("{} only in the second plan:", tasks(d.only_b.size())), d.only_b, most);
  std::vector<std::string> other_stream;
  for (const PlanMove& move : d.other_stream) {
    other_stream.push_back(fmt::format("{}: {} → {}", move.task, move.from_stream, move.to_stream));
  }
  text += listed(fmt::format("{} on another stream:", tasks(other_stream.size())), other_stream, most);
  for (const StreamMoves& on : d.moved) {
    std::vector<std::string> lines;
    for (const PlanMove& move : on.moves) {
      lines.push_back(fmt::format("{} now {}", move.task, move.after.empty() ? "first" : "after " + move.after));
    }
    text += listed(fmt::format("{} of the {} on {} changed places:", lines.size(), on.compute ? "tasks" : "collectives",
                               on.stream),
                   lines, most);
  }
  text += listed(fmt::format("added edges only in the first plan: {}", d.edges_only_a.size()), d.edges_only_a, most);
  return text +
         listed(fmt::format("added edges only in the second plan: {}", d.edges_only_b.size()), d.edges_only_b, most);
}

}  // namespace weft::plan
