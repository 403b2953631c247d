#include "runtime/draw.h"

#include "graph/colors.h"

namespace weft {

std::string plan_dot(const Plan& plan, const std::string& file_name, DotOptions options) {
  options.file_name = file_name;
  if (options.title.empty()) options.title = "one step of one rank, policy " + plan.policy;
  options.added_edges = plan.added_edges;
  options.stream_of = [&plan](TaskId task) {
    const StreamId stream = plan.position[task.index()].stream;
    return StreamStyle{plan.streams[stream.index()].stream.name, std::string(stream_color(stream.index()))};
  };
  options.note = [&plan](TaskId task) {
    const Position& at = plan.position[task.index()];
    const Entry& entry = plan.streams[at.stream.index()].entries[at.entry];
    return plan.reasons.empty() ? std::string() : plan.policy + ": " + plan.reasons[entry.reason];
  };
  return dump_dot(*plan.graph, options);
}

}  // namespace weft
