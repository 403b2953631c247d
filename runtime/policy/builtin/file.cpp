#include "runtime/policy/builtin/file.h"

#include <algorithm>
#include <span>

#include "runtime/policy/scheduling/arrangement.h"

namespace weft::policy {

FilePolicy::FilePolicy(const std::string& path, plan::ReasonTables tables)
    : path_(path), tables_(tables), file_(plan::read_plan_file(path)) {
  for (const plan::PlanFile::PlacedTask& placed : file_.sequence) tasks_.insert(placed.task);
}

std::vector<plan::Rewrite> FilePolicy::rewrites(const graph::Graph& graph, const PolicyOptions& options) const {
  if (!concerns(graph)) return {};
  // The user may have chosen some of the file's rewrites, which are already applied. Returns the remaining rewrites,
  // which give the graph the file's tasks.
  const std::vector<plan::Rewrite>& all = file_.rewrites;
  const auto given = std::make_shared<const graph::Graph>(graph);
  for (std::size_t done = all.size(); done > 0; --done) {
    const std::span<const plan::Rewrite> rest = std::span(all).subspan(done);
    if (has_the_tasks(*plan::rewrite(given, rest, options.weight_layouts))) return {rest.begin(), rest.end()};
  }
  return all;
}

plan::Order FilePolicy::order(const graph::Graph& graph, const PolicyOptions& options) const {
  if (!concerns(graph)) return program_order(graph, options);
  return plan::order_of(file_, graph, path_, tables_);
}

bool FilePolicy::concerns(const graph::Graph& graph) const {
  return std::ranges::any_of(graph.tasks(), [&](const graph::Task& task) { return tasks_.contains(task.name); });
}

bool FilePolicy::has_the_tasks(const graph::Graph& graph) const {
  return graph.tasks().size() == tasks_.size() &&
         std::ranges::all_of(graph.tasks(), [&](const graph::Task& task) { return tasks_.contains(task.name); });
}

}  // namespace weft::policy
