// "file:PATH": replays a plan file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "runtime/plan/plan_file.h"
#include "runtime/policy/policy.h"

namespace weft::policy {

/// Orders the graphs of a step, after the file's rewrites, as the file does. Graphs that share no task with the file (a
/// run has other graphs than the training step) are ordered as by `program`.
class FilePolicy final : public Policy {
 public:
  /// `tables`: of the reasons that the file may have. Throws UserError like read_plan_file().
  FilePolicy(const std::string& path, plan::ReasonTables tables);

  std::string name() const override { return "file:" + path_; }
  std::vector<plan::Rewrite> rewrites(const graph::Graph& graph, const PolicyOptions& options) const override;
  bool decides_packing() const override { return true; }
  bool may_be_reordered() const override { return false; }
  /// Throws UserError like order_of(), and if the file has another number of classes. Warns once if the file is of a
  /// graph with another fingerprint, such as that of another sequence length.
  std::vector<plan::Order> orders(graph::Classes classes, const PolicyOptions& options) const override;

 private:
  /// A class of the file, with the names of its tasks.
  struct Class {
    plan::FiledPlan plan;
    std::unordered_set<std::string> tasks = {};

    std::size_t shared_with(const graph::Graph& graph) const;
    bool has_the_tasks_of(const graph::Graph& graph) const;
  };

  /// The class that has most of the graph's tasks; nullptr if none has any.
  const Class* class_of(const graph::Graph& graph) const;

  void warn_of_another_graph(std::size_t of_class, std::uint64_t fingerprint) const;

  std::string path_;
  plan::ReasonTables tables_;
  std::vector<Class> classes_;
  mutable std::once_flag warned_;
};

}  // namespace weft::policy
