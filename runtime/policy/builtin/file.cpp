#include "runtime/policy/builtin/file.h"

#include <algorithm>
#include <span>

namespace weft {

FilePolicy::FilePolicy(const std::string& path) : path_(path), file_(read_plan_file(path)) {
  for (const PlanFile::PlacedTask& placed : file_.sequence) tasks_.insert(placed.task);
}

std::vector<Rewrite> FilePolicy::rewrites(const Graph& graph, const PolicyOptions& options) const {
  if (!concerns(graph)) return {};
  // Some of the file's rewrites may have been asked for by the user too and are done: the rest is what makes the file's
  // tasks of the graph.
  const std::vector<Rewrite>& all = file_.rewrites;
  const auto given = std::make_shared<const Graph>(graph);
  for (std::size_t done = all.size(); done > 0; --done) {
    const std::span<const Rewrite> rest = std::span(all).subspan(done);
    if (has_the_tasks(*rewrite(given, rest, options.weight_layouts))) return {rest.begin(), rest.end()};
  }
  return all;
}

Order FilePolicy::order(const Graph& graph, const PolicyOptions& options) const {
  if (!concerns(graph)) return default_policy()->order(graph, options);
  return order_of(file_, graph, path_);
}

bool FilePolicy::concerns(const Graph& graph) const {
  return std::ranges::any_of(graph.tasks(), [&](const Task& task) { return tasks_.contains(task.name); });
}

bool FilePolicy::has_the_tasks(const Graph& graph) const {
  return graph.tasks().size() == tasks_.size() &&
         std::ranges::all_of(graph.tasks(), [&](const Task& task) { return tasks_.contains(task.name); });
}

}  // namespace weft
