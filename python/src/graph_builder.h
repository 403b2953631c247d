// Open graphs built task by task from Python.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/open_graph.h"

namespace weft::python {

/// Names take the place of indices. Throws UserError on a name that comes twice or isn't there yet.
class GraphBuilder {
 public:
  explicit GraphBuilder(std::string name);

  void add_channel(const std::string& name, std::int64_t group_size, const std::string& link);
  void add_tensor(const std::string& name, std::int64_t bytes, bool outlives_step);

  struct Task {
    std::string name, kind = "compute", operation;
    double cost_ns = 0;
    std::optional<std::string> channel;
    std::vector<std::string> after, reads, writes;
    std::int32_t layer = -1, micro_batch = -1;
    std::string phase;  // "forward", "backward", "update"; "": unknown
  };
  void add_task(const Task& task);

  /// What was added so far, checked.
  graph::OpenGraph built() const;

 private:
  graph::OpenGraph graph_;
  std::map<std::string, std::uint32_t, std::less<>> channels_, tensors_, tasks_;
};

}  // namespace weft::python
