// `weft profile`: measures what each task of a configuration's step costs on this machine.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>

#include "base/files/durable_file.h"
#include "base/printable.h"
#include "base/status_line.h"
#include "base/text/text_table.h"
#include "runtime/cost/profile.h"
#include "tools/command_line/commands.h"
#include "tools/command_line/shared_options.h"
#include "tools/input/config_options.h"
#include "tools/input/launch.h"
#include "train/measure/measure_profile.h"
#include "train/run/launch_run.h"

namespace weft::tools {
namespace {

struct ProfileOptions {
  train::RunConfig config;  // not yet resolved
  std::string output = "profile.json";
  int steps = 10;
  int rounds = 9;
  bool json = false;
  bool quiet = false;
};

StyledText table_of(const cost::Profile& profile, std::size_t rows) {
  std::vector<cost::ProfileEntry> entries = profile.entries;
  std::ranges::sort(entries, std::greater{},
                    [](const cost::ProfileEntry& e) { return e.ns * static_cast<double>(e.samples); });
  double sum = 0;
  for (const cost::ProfileEntry& entry : entries) sum += entry.ns * static_cast<double>(entry.samples);
  TextTable table{.columns = {{.head = "share %"},
                              {.head = "us"},
                              {.head = "spread %", .rank = 1},
                              {.head = "core us", .rank = 3},
                              {.head = "samples", .rank = 2},
                              {.head = "task", .words = true, .least = 24}}};
  for (std::size_t i = 0; i < std::min(rows, entries.size()); ++i) {
    const cost::ProfileEntry& e = entries[i];
    table.rows.push_back(
        {fmt::format("{:.1f}", 100 * e.ns * static_cast<double>(e.samples) / sum), fmt::format("{:.1f}", e.ns * 1e-3),
         fmt::format("{:.1f}", e.ns > 0 ? 100 * e.deviation_ns / e.ns : 0.0),
         e.beside_ns > 0 ? fmt::format("{:.1f}", e.cpu_ns * 1e-3) : "-", fmt::format("{}", e.samples), e.signature});
  }
  StyledText text = table_text(table, output_width());
  if (entries.size() > rows) text.add(fmt::format("… and {} more in the file\n", entries.size() - rows));
  if (!profile.slowdowns.empty()) {
    text.add("slowed by more than the core time, as where both need the memory's bandwidth:\n");
  }
  for (const cost::Slowdown& slowdown : profile.slowdowns) {
    text.add(fmt::format("{:>6.2f}  {} beside {}\n", slowdown.factor, slowdown.compute, slowdown.collective));
  }
  return text;
}

int profile(const ProfileOptions& options) {
  return train::run_on_ranks(launched(options.config), [&](comm::World& world, const train::ResolvedRun& run) {
    if (world.rank() == 0) expect_writable(options.output);
    const cost::Profile measured = [&] {
      StatusLine line(world.rank() == 0 && !options.quiet && !options.json);
      return train::measure_profile(world, run, options.steps, options.rounds,
                                    [&](const Status& status) { line.tell(status); });
    }();
    if (world.rank() == 0) {
      write_durable(options.output, cost::profile_json(measured), Named::by_person);
      if (options.json) {
        say("{}", cost::profile_json(measured));
      } else {
        say(stdout, table_of(measured, 20)
                        .add(fmt::format("{}: {} kinds of tasks; plan with it by --profile {}\n", options.output,
                                         measured.entries.size(), options.output)));
      }
    }
    world.barrier();
    return 0;
  });
}

}  // namespace

Command describe_profile() {
  Command command{"profile", "measure what each task of a step costs on this machine"};
  const auto options = std::make_shared<ProfileOptions>();
  command.add(output_option(options->output, "FILE.json", "the file to write, for --profile"));
  command.add(number_option("--profile-steps", &options->steps, "steps measured, one task at a time", 1, 10000));
  command.add(number_option("--rounds", &options->rounds,
                            "rounds in which collectives run, alone and with computations", 1, 1000));
  command.add({.names = "--json", .target = &options->json, .help = "print the profile as JSON"});
  command.add({.names = "--quiet", .target = &options->quiet, .help = "print only the table and errors"});
  const ConfigOptions config(command);
  command.description =
      "Tasks run under policy serial, so that each is measured alone. The core time of a collective is what it takes "
      "from matrix products beside it; kinds of computations that are slowed by more get a factor. Of a grid with "
      "pipeline stages, each rank runs its own stage's computations without waiting for messages, which are measured "
      "apart.";
  command.examples = {{"weft profile --model tiny --ranks 2 -o tiny.json"},
                      {"tools/netlab --pin 1gbit 2 -- build/weft profile run.toml -o slow.json"},
                      {"weft compare run.toml --profile slow.json"}};
  command.run = [options, config] {
    return config.on_config(options->config, [&] {
      train::leave_out_library(options->config);
      return profile(*options);
    });
  };
  return command;
}

}  // namespace weft::tools
