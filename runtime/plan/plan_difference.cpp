#include "runtime/plan/plan_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace weft::plan {
namespace {

// The stream of a task and its position in the sequence.
struct Place {
  std::string stream;
  bool compute = true;
  std::size_t position = 0;
};

using Places = std::unordered_map<std::string, Place>;

Places places_of(const PlanFile& file) {
  Places places;
  for (std::size_t i = 0; i < file.sequence.size(); ++i) {
    const Stream& stream = file.streams[file.sequence[i].stream];
    places.emplace(file.sequence[i].task, Place{stream.name, stream.compute, i});
  }
  return places;
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

std::string only_in(const PlanFile& file, const Places& others, const char* which, std::size_t most) {
  std::vector<std::string> lines;
  for (const auto& placed : file.sequence) {
    if (!others.contains(placed.task)) lines.push_back(placed.task);
  }
  return listed(fmt::format("{} only in the {} plan:", tasks(lines.size()), which), lines, most);
}

// The tasks that both plans have on a stream and whose order relative to each other differs.
std::string moved(const PlanFile& b, const Places& in_a, const Stream& stream, std::size_t most) {
  std::vector<std::string> names;
  std::vector<std::size_t> positions;  // in a, in the order of b
  for (const auto& placed : b.sequence) {
    const auto known = in_a.find(placed.task);
    if (known == in_a.end() || known->second.stream != stream.name || b.streams[placed.stream].name != stream.name) {
      continue;
    }
    names.push_back(placed.task);
    positions.push_back(known->second.position);
  }
  const std::vector<bool> stays = rising(positions);
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (stays[i]) continue;
    const std::string behind = i == 0 ? "first" : "after " + names[i - 1];
    lines.push_back(fmt::format("{} now {}", names[i], behind));
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

std::string describe_difference(const PlanFile& a, const PlanFile& b, std::size_t most) {
  const Places in_a = places_of(a), in_b = places_of(b);
  std::string text = only_in(a, in_b, "first", most) + only_in(b, in_a, "second", most);
  std::vector<std::string> other_stream;
  for (const auto& placed : b.sequence) {
    const auto known = in_a.find(placed.task);
    const std::string& stream = b.streams[placed.stream].name;
    if (known == in_a.end() || known->second.stream == stream) continue;
    other_stream.push_back(fmt::format("{}: {} → {}", placed.task, known->second.stream, stream));
  }
  text += listed(fmt::format("{} on another stream:", tasks(other_stream.size())), other_stream, most);
  for (const Stream& stream : b.streams) text += moved(b, in_a, stream, most);
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
