// `weft diff`: says in words what moved between two plans.

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/text/json_object.h"
#include "runtime/plan/plan_difference.h"
#include "tools/command_line/commands.h"
#include "tools/command_line/shared_options.h"

namespace weft::tools {
namespace {

struct DiffOptions {
  std::string first, second;
  std::size_t most = 10;
  bool json = false;
};

std::vector<JsonObject> moves_of(const std::vector<plan::PlanMove>& moves) {
  std::vector<JsonObject> list;
  for (const plan::PlanMove& move : moves) {
    list.push_back(JsonObject()
                       .add("task", move.task)
                       .add("from_stream", move.from_stream)
                       .add("to_stream", move.to_stream)
                       .add("after", move.after));
  }
  return list;
}

/// All of the difference, whatever --most says.
JsonObject json_of(const plan::PlanDifference& difference) {
  std::vector<plan::PlanMove> moved;
  for (const plan::StreamMoves& on : difference.moved) moved.insert(moved.end(), on.moves.begin(), on.moves.end());
  return JsonObject()
      .add("same", difference.same())
      .add("policy_a", difference.policy_a)
      .add("policy_b", difference.policy_b)
      .add("rewrites_a", difference.rewrites_a)
      .add("rewrites_b", difference.rewrites_b)
      .add("scratch_bytes_a", difference.scratch_bytes_a)
      .add("scratch_bytes_b", difference.scratch_bytes_b)
      .add("other_graph", difference.other_graph)
      .add("only_a", difference.only_a)
      .add("only_b", difference.only_b)
      .add("other_stream", moves_of(difference.other_stream))
      .add("other_place", moves_of(moved))
      .add("added_edges_only_a", difference.edges_only_a)
      .add("added_edges_only_b", difference.edges_only_b);
}

int compare(const DiffOptions& options) {
  const std::size_t most = options.most == 0 ? std::numeric_limits<std::size_t>::max() : options.most;
  const plan::PlanDifference difference =
      plan::difference_of(plan::read_plan_file(options.first), plan::read_plan_file(options.second));
  const std::string text = plan::describe(difference, most);
  return print_result(options.json, json_of(difference), text.empty() ? "the plans are the same\n" : text);
}

}  // namespace

Command describe_diff() {
  Command command{"diff", "show what moved between two plans"};
  const auto options = std::make_shared<DiffOptions>();
  command.add(required(path_option("first", &options->first, "", "a file that `weft plan` wrote")));
  command.add(required(path_option("second", &options->second, "", "another file")));
  command.add(number_option("--most", &options->most, "tasks named for each kind of change; 0: all", 0));
  command.add({.names = "--json", .target = &options->json, .help = "print all differences as one JSON object"});
  command.examples = {{"weft diff serial.json program.json --most 0"}};
  command.run = [options] { return compare(*options); };
  return command;
}

}  // namespace weft::tools
