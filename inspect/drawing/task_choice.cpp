#include "inspect/drawing/task_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/units.h"

namespace weft::inspect {
namespace {

using Neighbours = std::vector<std::vector<graph::TaskId>>;  // by task

struct Adjacency {
  Neighbours before, after;
};

Adjacency adjacency(const graph::Graph& graph, std::span<const graph::Edge> added) {
  const std::size_t tasks = graph.tasks().size();
  Adjacency out{Neighbours(tasks), Neighbours(tasks)};
  for (const std::span<const graph::Edge> edges : {graph.edges(), added}) {
    for (const graph::Edge& edge : edges) {
      if (edge.distance > 0) continue;
      out.before[edge.to.index()].push_back(edge.from);
      out.after[edge.from.index()].push_back(edge.to);
    }
  }
  return out;
}

// Marks the tasks reached from `start` within `hops` edges; a negative number sets no limit.
void reach(const Neighbours& next, graph::TaskId start, int hops, std::vector<bool>& reached) {
  std::vector<graph::TaskId> front = {start};
  reached[start.index()] = true;
  for (int hop = 0; !front.empty() && hop != hops; ++hop) {
    std::vector<graph::TaskId> further;
    for (const graph::TaskId task : front) {
      for (const graph::TaskId neighbour : next[task.index()]) {
        if (reached[neighbour.index()]) continue;
        reached[neighbour.index()] = true;
        further.push_back(neighbour);
      }
    }
    front = std::move(further);
  }
}

std::optional<std::int32_t> whole_number(std::string_view text) {
  const auto number = number_in<std::int32_t>(text);
  return number && *number >= 0 ? number : std::nullopt;
}

}  // namespace

std::vector<graph::TaskId> chosen_tasks(const graph::Graph& graph, std::span<const graph::Edge> added,
                                        const TaskChoice& choice) {
  const std::size_t tasks = graph.tasks().size();
  std::vector<bool> keep(tasks, true);
  const auto narrow = [&](const std::vector<bool>& by) {
    for (std::size_t i = 0; i < tasks; ++i) keep[i] = keep[i] && by[i];
  };
  if (choice.around || choice.from || choice.to) {
    const Adjacency edges = adjacency(graph, added);
    if (choice.around) {
      std::vector<bool> near(tasks, false), before(tasks, false);
      reach(edges.after, *choice.around, choice.hops, near);
      reach(edges.before, *choice.around, choice.hops, before);
      for (std::size_t i = 0; i < tasks; ++i) near[i] = near[i] || before[i];
      narrow(near);
    }
    for (const auto& [end, next] : {std::pair(choice.from, &edges.after), std::pair(choice.to, &edges.before)}) {
      if (!end) continue;
      std::vector<bool> reached(tasks, false);
      reach(*next, *end, -1, reached);
      narrow(reached);
    }
  }
  std::vector<graph::TaskId> chosen;
  for (std::size_t i = 0; i < tasks; ++i) {
    const std::int32_t layer = graph.tasks()[i].layer;
    if (choice.layers && (layer < choice.layers->first || layer > choice.layers->second)) continue;
    if (keep[i]) chosen.emplace_back(i);
  }
  return chosen;
}

graph::TaskId named_task(const graph::Graph& graph, const std::string& flag, const std::string& name) {
  if (const graph::TaskId task = graph.find_task(name); task.valid()) return task;
  std::vector<std::string> names, like;
  for (const graph::Task& task : graph.tasks()) {
    names.push_back(task.name);
    constexpr std::size_t kMost = 5;
    if (!name.empty() && like.size() < kMost && task.name.find(name) != std::string::npos) like.push_back(task.name);
  }
  if (like.empty()) {
    if (const std::string nearest = nearest_name(name, names); !nearest.empty()) like.push_back(nearest);
  }
  throw UserError(
      fmt::format("{}: there is no task \"{}\"", flag, name), "the name of one of the graph's tasks",
      like.empty() ? "`weft graph … -o tasks.json` lists their names" : fmt::format("{} {}", flag, join(like, " or ")));
}

std::pair<std::int32_t, std::int32_t> named_layers(const graph::Graph& graph, const std::string& text) {
  std::int32_t last = -1;
  for (const graph::Task& task : graph.tasks()) last = std::max(last, task.layer);
  const std::size_t dots = text.find("..");
  const std::string_view all = text;
  const auto first = whole_number(all.substr(0, dots));
  const auto second = dots == std::string::npos ? first : whole_number(all.substr(dots + 2));
  if (first && second && *first <= *second && *second <= last) return {*first, *second};
  throw UserError(fmt::format("--layers {} names no layers of this graph", text),
                  last < 0 ? "a graph that has layers" : fmt::format("FIRST..LAST or one number, 0 to {}", last),
                  last < 0 ? "leave out --layers" : fmt::format("--layers 0..{}", last));
}

}  // namespace weft::inspect
