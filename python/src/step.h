// One training step as Python sees it: a graph with its machine, costs and options, and what Weft says about it.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/open_graph.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/simulate/report.h"

namespace weft::python {

namespace py = pybind11;

/// Keys of a configuration with their values, as texts.
using Keys = std::vector<std::pair<std::string, std::string>>;

class Step {
 public:
  /// Of a configuration file ("": none) and keys that take precedence.
  static std::shared_ptr<Step> of_config(const std::string& file, const Keys& keys);
  /// The other arguments are those of `weft`'s flags about graph files.
  static std::shared_ptr<Step> of_open_graph(graph::OpenGraph graph, const std::string& class_name,
                                             const std::string& keep_order, const std::vector<std::string>& bandwidths,
                                             const Keys& keys);

  std::string title, default_policy;
  simulate::Problem problem;
  std::optional<graph::OpenGraph> open = {};  // that the step is of
  std::size_t class_index = 0;                // of the first of its classes

  /// A Problem of Python, of the step's own graph.
  py::object python_problem();
  /// Of this step, its costs multiplied by a factor where a pattern matches: {"gemm*": 0.8}.
  std::shared_ptr<Step> scaled(const std::vector<std::pair<std::string, double>>& factors) const;
  std::shared_ptr<Step> with_memory(std::int64_t bytes) const;
  py::dict bounds() const;
  void write_graph(const std::string& path) const;
};

/// A policy's step.
class Report {
 public:
  Report(std::shared_ptr<Step> step, const py::object& policy);

  py::dict summary() const;
  /// What the checker finds; empty: the plan is safe.
  std::vector<std::string> violations() const;
  /// Columns task, stream, begin_ns, end_ns, reason.
  py::dict timeline() const;
  /// Rows of columns: exposed collectives with their cause.
  py::list exposed(double least_ns) const;
  /// Remedies with their gains, by collective or group.
  py::list remedies(double least_ns) const;
  void write_plan(const std::string& path) const;
  std::string svg() const;

 private:
  std::shared_ptr<Step> step_;
  simulate::Report report_;
};

}  // namespace weft::python
