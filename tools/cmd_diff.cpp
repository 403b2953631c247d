// `weft diff`: says in words what moved between two plans.
#include <fmt/format.h>

#include <limits>
#include <memory>
#include <string>

#include "base/text/printable.h"
#include "runtime/plan/plan_difference.h"
#include "tools/commands.h"

namespace weft::tools {
namespace {

struct DiffOptions {
  std::string first, second;
  std::size_t most = 10;
};

int compare(const DiffOptions& options) {
  const std::size_t most = options.most == 0 ? std::numeric_limits<std::size_t>::max() : options.most;
  const std::string text =
      plan::describe_difference(plan::read_plan_file(options.first), plan::read_plan_file(options.second), most);
  say("{}", text.empty() ? "the plans are the same\n" : text);
  return 0;
}

}  // namespace

Command describe_diff() {
  Command command{"diff", "say what moved between two plans"};
  const auto options = std::make_shared<DiffOptions>();
  command.add({.names = "first",
               .target = &options->first,
               .help = "a file that `weft plan` wrote",
               .paths = Paths::files,
               .required = true});
  command.add(
      {.names = "second", .target = &options->second, .help = "another one", .paths = Paths::files, .required = true});
  command.add({.names = "--most",
               .target = &options->most,
               .value = "N",
               .help = "tasks named for each kind of change; 0: all",
               .least = 0});
  command.examples = {{"weft diff serial.json program.json --most 0"}};
  command.run = [options] { return compare(*options); };
  return command;
}

}  // namespace weft::tools
