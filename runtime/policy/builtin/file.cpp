#include "runtime/policy/builtin/file.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "runtime/policy/builtin/program.h"

namespace weft::policy {

FilePolicy::FilePolicy(const std::string& path, plan::ReasonTables tables) : path_(path), tables_(tables) {
  for (plan::FiledPlan& plan : plan::read_plan_file(path)) {
    Class& one = classes_.emplace_back(Class{std::move(plan)});
    for (const plan::FiledPlan::PlacedTask& placed : one.plan.sequence) one.tasks.insert(placed.task);
  }
  const std::vector<std::int64_t>& stages = classes_.front().plan.stages;
  if (stages.size() < 2) return;
  chunks_.chunks = std::ssize(stages);
  if (stages[1] != chunks_.stage_on(0, 1, std::ssize(classes_))) chunks_.placement = graph::ChunkPlacement::v;
}

std::vector<plan::Rewrite> FilePolicy::rewrites(const graph::Graph& graph, const PolicyOptions& options) const {
  const Class* own = class_of(graph);
  if (own == nullptr) return {};
  // The user may have chosen some of the file's rewrites, which are already applied. Returns the remaining rewrites,
  // which give the graph the file's tasks.
  const std::vector<plan::Rewrite>& all = own->plan.rewrites;
  const auto given = std::make_shared<const graph::Graph>(graph);
  for (std::size_t done = all.size(); done > 0; --done) {
    const std::span<const plan::Rewrite> rest = std::span(all).subspan(done);
    if (own->has_the_tasks_of(*plan::rewrite(given, rest, options.weight_layouts))) return {rest.begin(), rest.end()};
  }
  return all;
}

std::vector<plan::Order> FilePolicy::orders(graph::Classes classes, const PolicyOptions& options) const {
  std::vector<plan::Order> orders;
  for (std::size_t k = 0; k < classes.size(); ++k) {
    if (class_of(*classes[k]) == nullptr) return ProgramPolicy().orders(classes, options);
    if (classes.size() != classes_.size()) {
      throw UserError(fmt::format("{} has the plans of {} rank classes", path_, classes_.size()),
                      fmt::format("{}, as the step has", classes.size()),
                      "give the configuration that the plan was made with, or make a new plan with `weft plan`");
    }
    orders.push_back(plan::order_of(classes_[k].plan, *classes[k], path_, tables_));
    warn_of_another_graph(k, classes[k]->fingerprint());
  }
  return orders;
}

void FilePolicy::warn_of_another_graph(std::size_t of_class, std::uint64_t fingerprint) const {
  const std::uint64_t filed = classes_[of_class].plan.graph_fingerprint;
  if (filed == fingerprint) return;
  std::call_once(warned_, [&] {
    Log(LogTopic::plan)
        .warning(
            "{} was made for a graph with the fingerprint {}, and this one has {}: its order is used, and may be "
            "far from the best here (`weft plan` makes another)",
            path_, hex_fingerprint(filed), hex_fingerprint(fingerprint));
  });
}

std::size_t FilePolicy::Class::shared_with(const graph::Graph& graph) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(graph.tasks(), [&](const graph::Task& task) { return tasks.contains(task.name); }));
}

bool FilePolicy::Class::has_the_tasks_of(const graph::Graph& graph) const {
  return graph.tasks().size() == tasks.size() && shared_with(graph) == tasks.size();
}

const FilePolicy::Class* FilePolicy::class_of(const graph::Graph& graph) const {
  const auto most = std::ranges::max_element(classes_, {}, [&](const Class& each) { return each.shared_with(graph); });
  return most->shared_with(graph) > 0 ? &*most : nullptr;
}

}  // namespace weft::policy
