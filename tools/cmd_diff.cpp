// `weft diff`: says in words what moved between two plans.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
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

Command add_diff(CLI::App& root) {
  CLI::App* app = root.add_subcommand("diff", "say what moved between two plans");
  const auto options = std::make_shared<DiffOptions>();
  app->add_option("first", options->first, "a file that `weft plan` wrote")->required();
  app->add_option("second", options->second, "another one")->required();
  app->add_option("--most", options->most, "tasks named for each kind of change; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app->footer("Example:\n  weft diff serial.json program.json --most 0");
  return [options] { return compare(*options); };
}

}  // namespace weft::tools
