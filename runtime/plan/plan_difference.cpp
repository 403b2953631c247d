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

Names names_of(const PlanFile& file) {
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

std::string only_in(const PlanFile& file, const Names& others, const char* which, std::size_t most) {
  std::vector<std::string> lines;
  for (const auto& placed : file.sequence) {
    if (!others.contains(placed.task)) lines.push_back(placed.task);
  }
  return listed(fmt::format("{} only in the {} plan:", tasks(lines.size()), which), lines, most);
}

std::vector<PlacedName> placed_names(const PlanFile& file) {
  std::vector<PlacedName> names;
  for (const auto& placed : file.sequence) names.push_back({placed.task, file.streams[placed.stream].name});
  return names;
}

std::string moved_within(std::span<const MovedTask> moved, std::span<const PlacedName> b, const Stream& stream,
                         std::size_t most) {
  std::vector<std::string> lines;
  for (const MovedTask& task : moved) {
    if (task.other_stream || b[task.in_b].stream != stream.name) continue;
    const std::string place = task.follows ? fmt::format("after {}", b[*task.follows].task) : "first";
    lines.push_back(fmt::format("{} now {}", b[task.in_b].task, place));
  }
  return listed(fmt::format("{} of the {} on {} changed places:", lines.size(),
                            stream.compute ? "tasks" : "collectives", stream.name),
                lines, most);
}

using EdgeKey = std::tuple<std::string, std::string, graph::EdgeKind, std::uint8_t>;

std::set<EdgeKey> edges_of(const PlanFile& file) {
  std::set<EdgeKey> edges;
  for (const auto& edge : file.added_edges) edges.emplace(edge.from, edge.to, edge.kind, edge.distance);
  return edges;
}

std::string only_in(const std::set<EdgeKey>& edges, const std::set<EdgeKey>& others, const char* which,
                    std::size_t most) {
  std::vector<std::string> lines;
  for (const EdgeKey& edge : edges) {
    if (!others.contains(edge)) lines.push_back(fmt::format("{} → {}", std::get<0>(edge), std::get<1>(edge)));
  }
  return listed(fmt::format("added edges only in the {} plan: {}", which, lines.size()), lines, most);
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

std::string describe_difference(const PlanFile& a, const PlanFile& b, std::size_t most) {
  const Names in_a = names_of(a), in_b = names_of(b);
  std::string text = only_in(a, in_b, "first", most) + only_in(b, in_a, "second", most);
  const std::vector<PlacedName> names_a = placed_names(a), names_b = placed_names(b);
  const std::vector<MovedTask> moved = moved_tasks(names_a, names_b);
  std::vector<std::string> other_stream;
  for (const MovedTask& task : moved) {
    if (!task.other_stream) continue;
    other_stream.push_back(
        fmt::format("{}: {} → {}", names_b[task.in_b].task, names_a[task.in_a].stream, names_b[task.in_b].stream));
  }
  text += listed(fmt::format("{} on another stream:", tasks(other_stream.size())), other_stream, most);
  for (const Stream& stream : b.streams) text += moved_within(moved, names_b, stream, most);
  const std::set<EdgeKey> edges_a = edges_of(a), edges_b = edges_of(b);
  text += only_in(edges_a, edges_b, "first", most) + only_in(edges_b, edges_a, "second", most);
  const bool same = text.empty() && a.sequence.size() == b.sequence.size();
  const auto changed = [&](const char* what, const std::string& before, const std::string& after) {
    return before == after ? std::string() : fmt::format("{}: {} → {}\n", what, before, after);
  };
  const auto or_none = [](const std::vector<Rewrite>& rewrites) {
    return rewrites.empty() ? std::string("none") : to_string(rewrites);
  };
  std::string head = changed("rewrites", or_none(a.rewrites), or_none(b.rewrites)) +
                     changed("scratch bytes", std::to_string(a.scratch_bytes), std::to_string(b.scratch_bytes));
  if (a.graph_fingerprint != b.graph_fingerprint) head += "the graphs differ (sizes, or tasks)\n";
  if (same && head.empty()) return "";
  return changed("policy", a.policy, b.policy) + head + text;
}

}  // namespace weft::plan
