// `weft simulate`: how long a step of a configuration would take on a machine that need not be at hand.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ops/lower.h"
#include "runtime/bounds.h"
#include "runtime/cost_model.h"
#include "runtime/memory_report.h"
#include "runtime/policy.h"
#include "runtime/simulator.h"
#include "runtime/timeline.h"
#include "tools/commands.h"
#include "tools/config_options.h"
#include "tools/machine_files.h"
#include "tools/output_file.h"
#include "train/durable_file.h"
#include "train/progress.h"
#include "train/trainer.h"

namespace weft {
namespace {

struct SimulateOptions {
  RunConfig config;  // not yet resolved
  std::string machine = "laptop";
  int streams = 1, steps = 1;
  double noise = 0, slow_rank = 1;
  std::string trace, svg;
  bool json = false;
};

// A rank more is a row more of every picture.
constexpr std::int64_t kTracedRanks = 8;

struct ChannelTime {
  std::string stream;
  double busy_ns = 0, exposed_ns = 0;
};

/// What the command tells, once computed.
struct Report {
  const RunConfig& config;
  const Machine& machine;
  const Plan& plan;
  const Simulation& simulation;
  Bounds bounds{};
  OverlapSummary overlap{};             // of rank 0's last step
  std::vector<ChannelTime> channels{};  // likewise
  MemoryReport memory{};
  double compute_alone_ns = 0, communication_alone_ns = 0;  // Σ of costs

  double seconds() const { return simulation.step_ns * 1e-9; }
  double tokens() const { return static_cast<double>(config.global_batch * config.seq_len); }
  double gap() const { return bounds.best() > 0 ? simulation.step_ns / bounds.best() - 1 : 0; }
  /// Of the model's arithmetic (recompute isn't counted), by device.
  double flops_a_device() const {
    return config.model.train_flops_per_token(config.seq_len) * tokens() / seconds() /
           static_cast<double>(config.grid.ranks());
  }
  double flops_share() const { return flops_a_device() / machine.flops(config.dtype); }
  bool fits() const { return static_cast<double>(memory.total()) <= machine.memory_bytes; }
  const StepTrace& step() const { return simulation.ranks.front().steps.back(); }
  std::vector<std::string> unsure() const {
    std::vector<std::string> keys;
    for (const Provenance& number : machine.provenance) {
      if (number.status == "unverified" || number.status == "assumed") keys.push_back(number.key);
    }
    return keys;
  }
};

std::vector<ChannelTime> channel_times(const Plan& plan, const StepTrace& step) {
  const BusyTimes busy = busy_times(plan, step);
  std::vector<ChannelTime> channels;
  for (std::size_t i = 0; i < plan.streams.size(); ++i) {
    if (plan.streams[i].stream.compute) continue;
    channels.push_back({plan.streams[i].stream.name, static_cast<double>(total_length(busy.streams[i])),
                        static_cast<double>(total_length(difference(busy.streams[i], busy.compute)))});
  }
  return channels;
}

std::string time_text(double ns) {
  if (ns >= 1e9) return fmt::format("{:.3f} s", ns * 1e-9);
  return ns >= 1e6 ? fmt::format("{:.2f} ms", ns * 1e-6) : fmt::format("{:.1f} us", ns * 1e-3);
}

std::string text_of(const Report& report) {
  const Simulation& simulation = report.simulation;
  std::string text = fmt::format("{} on {} ranks ({}) of {}, policy {}: {} tasks a rank\n", report.config.model.name,
                                 report.config.grid.ranks(), to_string(report.config.grid), report.machine.name,
                                 report.plan.policy, report.plan.sequence.size());
  text += fmt::format("step          {}, {} tokens/s\n", time_text(simulation.step_ns),
                      human_count(report.tokens() / report.seconds()));
  text += fmt::format("arithmetic    {} operations/s a device, {:.1f} % of what its products reach\n",
                      human_count(report.flops_a_device()), 100 * report.flops_share());
  text += fmt::format(
      "bounds        critical path {}, work {}, one machine {}{}; the step is {:.1f} % above the best\n",
      time_text(report.bounds.critical_path), time_text(report.bounds.work), time_text(report.bounds.one_machine),
      report.bounds.energy > 0 ? ", cores " + time_text(report.bounds.energy) : "", 100 * report.gap());
  text += fmt::format("computing     {}, {} of it because of communication beside it\n",
                      time_text(static_cast<double>(report.overlap.compute)),
                      time_text(simulation.ranks.front().contention_ns));
  text += fmt::format("communicating {}, {} exposed; {:.1f} % overlapped\n",
                      time_text(static_cast<double>(report.overlap.communication)),
                      time_text(static_cast<double>(report.overlap.exposed)), 100 * report.overlap.overlap_fraction());
  for (const ChannelTime& channel : report.channels) {
    text += fmt::format("  {:<11} {}, {} exposed\n", channel.stream, time_text(channel.busy_ns),
                        time_text(channel.exposed_ns));
  }
  text += fmt::format("memory        {} of {}{}\n", human_bytes(static_cast<std::uint64_t>(report.memory.total())),
                      human_bytes(static_cast<std::uint64_t>(report.machine.memory_bytes)),
                      report.fits() ? "" : ": DOESN'T FIT");
  if (const std::size_t unsure = report.unsure().size(); unsure > 0) {
    text += fmt::format("machine       {} of its numbers {} unverified or assumed: see --json\n", unsure,
                        unsure == 1 ? "is" : "are");
  }
  return text + "\n" + timeline_text(report.plan, report.step());
}

nlohmann::ordered_json json_of(const Report& report) {
  const Simulation& simulation = report.simulation;
  nlohmann::ordered_json json = {
      {"model", report.config.model.name},
      {"machine", report.machine.name},
      {"grid", to_string(report.config.grid)},
      {"ranks", report.config.grid.ranks()},
      {"policy", report.plan.policy},
      {"tasks", report.plan.sequence.size()},
      {"events", simulation.events},
      {"step_seconds", report.seconds()},
      {"tokens_per_second", report.tokens() / report.seconds()},
      {"flops_per_device", report.flops_a_device()},
      {"flops_share", report.flops_share()},
      {"bounds_seconds",
       {{"critical_path", report.bounds.critical_path * 1e-9},
        {"work", report.bounds.work * 1e-9},
        {"one_machine", report.bounds.one_machine * 1e-9},
        {"energy", report.bounds.energy * 1e-9},
        {"best", report.bounds.best() * 1e-9}}},
      {"gap", report.gap()},
      {"compute_seconds", static_cast<double>(report.overlap.compute) * 1e-9},
      {"compute_alone_seconds", report.compute_alone_ns * 1e-9},
      {"contention_seconds", simulation.ranks.front().contention_ns * 1e-9},
      {"communication_seconds", static_cast<double>(report.overlap.communication) * 1e-9},
      {"communication_alone_seconds", report.communication_alone_ns * 1e-9},
      {"exposed_seconds", static_cast<double>(report.overlap.exposed) * 1e-9},
      {"overlap_fraction", report.overlap.overlap_fraction()},
      {"memory_bytes", report.memory.total()},
      {"fits", report.fits()},
      {"unsure_numbers", report.unsure()},
  };
  json["channels"] = nlohmann::ordered_json::object();
  for (const ChannelTime& channel : report.channels) {
    json["channels"][channel.stream] = {{"busy_seconds", channel.busy_ns * 1e-9},
                                        {"exposed_seconds", channel.exposed_ns * 1e-9}};
  }
  return json;
}

void write_pictures(const SimulateOptions& options, const Report& report) {
  if (!options.trace.empty()) {
    std::vector<RankTrace> ranks;
    for (const SimulatedRank& rank : report.simulation.ranks) ranks.push_back({rank.rank, rank.steps});
    const int all = report.simulation.ranks.size() == 1 ? 1 : static_cast<int>(report.config.grid.ranks());
    write_durable(options.trace, chrome_trace_json(report.plan, ranks, all));
  }
  if (!options.svg.empty()) {
    std::vector<StepTrace> steps;
    for (const SimulatedRank& rank : report.simulation.ranks) steps.push_back(rank.steps.back());
    write_durable(options.svg, timeline_svg(report.plan, steps));
  }
}

int run(const SimulateOptions& options) {
  for (const std::string& file : {options.trace, options.svg}) {
    if (!file.empty()) expect_writable(file);
  }
  RunConfig config = options.config;
  resolve(config, 0);
  const Machine machine = find_machine(options.machine, machine_folders());
  const auto graph = lower_train(config.model, step_config(config));
  const std::shared_ptr<const CostModel> model = analytic_costs(machine, config.grid);
  const std::unique_ptr<Policy> policy = make_policy(config.policy);
  const PolicyOptions policy_options{.compute_streams = options.streams, .seed = config.seed, .cost_model = model};
  const Plan plan = make_plan(graph, policy->order(*graph, policy_options), policy->name());
  const TaskCosts costs = model->costs(*graph);

  SimulationOptions simulated{.grid = config.grid,
                              .link_of_channel = links_of_channels(machine, config.grid),
                              .steps = options.steps,
                              .noise = options.noise,
                              .slow_rank = options.slow_rank,
                              .seed = config.seed,
                              .traced_ranks = kTracedRanks};
  const Simulation simulation = simulate(plan, costs, machine, simulated);
  Report report{.config = config, .machine = machine, .plan = plan, .simulation = simulation};
  report.bounds = lower_bounds(*graph, costs, machine, options.streams, simulated.link_of_channel);
  report.overlap = summarize(plan, report.step());
  report.channels = channel_times(plan, report.step());
  report.memory = memory_report(plan);
  for (std::size_t i = 0; i < costs.ns.size(); ++i) {
    const bool collective = is_collective(graph->tasks()[i].operation);
    (collective ? report.communication_alone_ns : report.compute_alone_ns) += costs.ns[i];
  }
  write_pictures(options, report);
  if (options.json) {
    fmt::print("{}\n", json_of(report).dump());
  } else {
    fmt::print("{}", text_of(report));
  }
  return 0;
}

}  // namespace

Command add_simulate(CLI::App& root) {
  CLI::App* app = root.add_subcommand("simulate", "how long a step would take on a machine that need not be at hand");
  const auto options = std::make_shared<SimulateOptions>();
  app->add_option("--machine", options->machine, "laptop, dgx-h100, perlmutter, frontier, alps, or a TOML file")
      ->type_name("NAME|FILE")
      ->capture_default_str();
  app->add_option("--streams", options->streams, "compute streams of a rank")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app->add_option("--simulated-steps", options->steps, "steps to simulate; the last one is reported")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app->add_option("--noise", options->noise,
                  "relative standard deviation of every task's time; all ranks are simulated")
      ->check(CLI::Range(0.0, 10.0))
      ->capture_default_str();
  app->add_option("--slow-rank", options->slow_rank, "how many times as long rank 0 computes; all ranks are simulated")
      ->check(CLI::Range(0.01, 1000.0))
      ->capture_default_str();
  app->add_option("-o,--output", options->trace, "write a Chrome trace, for Perfetto")->type_name("FILE.json");
  app->add_option("--svg", options->svg, "draw the last step's timeline")->type_name("FILE.svg");
  app->add_flag("--json", options->json, "print the figures as JSON");
  const ConfigOptions config(*app);
  app->footer(
      "Examples:\n"
      "  weft simulate --model gpt2-124m --ranks 2\n"
      "  weft simulate --model gpt-80b --machine frontier --grid x=4,z=8,data=256 --dtype bf16 --recompute block\n"
      "                --global-batch 8192 --micro-batch 1 -o step.json\n"
      "  weft simulate run.toml --machine my-cluster.toml --slow-rank 1.3 --json");
  return [options, config] {
    options->config = config.load();
    if (config.dump()) return print_config(options->config);
    return run(*options);
  };
}

}  // namespace weft
