// "file:PATH": replays a plan file.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "runtime/plan/plan_file.h"
#include "runtime/policy/policy.h"

namespace weft::policy {

/// Orders a graph, after the file's rewrites, as the file does. Graphs that share no task with the file (a run has
/// other graphs than the training step) are ordered as by `program`.
class FilePolicy final : public OneClassPolicy {
 public:
  /// `tables`: of the reasons that the file may have. Throws UserError like read_plan_file().
  FilePolicy(const std::string& path, plan::ReasonTables tables);

  std::string name() const override { return "file:" + path_; }
  std::vector<plan::Rewrite> rewrites(const graph::Graph& graph, const PolicyOptions& options) const override;
  bool decides_packing() const override { return true; }
  bool may_be_reordered() const override { return false; }
  /// Throws UserError like order_of().
  plan::Order order(const graph::Graph& graph, const PolicyOptions& options) const override;

 private:
  bool concerns(const graph::Graph& graph) const;
  bool has_the_tasks(const graph::Graph& graph) const;

  std::string path_;
  plan::ReasonTables tables_;
  plan::PlanFile file_;
  std::unordered_set<std::string> tasks_;
};

}  // namespace weft::policy
