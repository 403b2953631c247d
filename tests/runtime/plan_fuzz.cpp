// Random graphs under every policy and many memory limits: each plan must pass the checker, run to its end in the
// simulator with any times, never beat the lower bounds, and, when executed, give the bits of a plain loop.
//
//   plan_fuzz --graphs 10000 --seed 1                     plans, checker and simulator
//   plan_fuzz --graphs 10000 --seed 1 --execute 3         of each graph, 3 plans are run on ranks in threads, too
//   plan_fuzz --graphs 1 --seed 4711                      the one graph that a failure named
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "runtime/comm/launch.h"
#include "runtime/execute/program/program.h"
#include "runtime/plan/checker.h"
#include "runtime/plan/rewrite.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/compile/compile_plan.h"
#include "runtime/simulate/bounds.h"
#include "runtime/simulate/simulator.h"
#include "tests/runtime/executable_graph.h"
#include "tests/runtime/layered_graph.h"
#include "tests/runtime/links.h"
#include "tests/runtime/odd_world.h"
#include "tests/runtime/policy/quick_policies.h"
#include "tests/runtime/toy_graph.h"

namespace weft::testing {
namespace {

struct Settings {
  std::uint64_t graphs = 100, seed = 1;
  int execute = 0;          // plans of each graph that are run
  double most_seconds = 0;  // 0: until all graphs are done
};

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Ends the process after two minutes without progress: a deadlock is a failure too.
class Watch {
 public:
  Watch() : thread_([this](const std::stop_token& stop) { watch(stop); }) {}
  void say(std::string what) {
    const std::scoped_lock lock(mutex_);
    what_ = std::move(what);
    ++beats_;
  }
  std::string what() const {
    const std::scoped_lock lock(mutex_);
    return what_;
  }

 private:
  void watch(const std::stop_token& stop) {
    for (int quiet = 0; !stop.stop_requested(); ++quiet) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      if (beats_.exchange(0) != 0) quiet = 0;
      if (quiet < 1200) continue;
      fmt::print(stderr, "FAILED, a deadlock: {}\n", what());
      std::_Exit(3);
    }
  }

  mutable std::mutex mutex_;
  std::string what_;
  std::atomic<std::uint64_t> beats_{0};
  std::jthread thread_;
};

/// Costs by name of task, from a seed: many small ones, some of nothing, some of ten seconds.
std::shared_ptr<const cost::CostModel> wild_costs(std::uint64_t seed) {
  return testing::priced_tasks([seed](const graph::Task& task) {
    testing::Draws draws(Fingerprint().add(seed).add(task.name).value());
    double ns = std::exp2(static_cast<double>(draws.between(0, 24)));
    if (seed % 4 == 0) ns = static_cast<double>(draws.between(1, 20));
    if (draws.chance(10)) ns = 0;
    if (draws.chance(2)) ns = 1e10;
    if (draws.chance(2)) ns = 1e-6;
    if (seed % 16 == 1) ns = 0;
    const double cores = graph::is_collective(task.operation) ? static_cast<double>(draws.below(4)) : 0;
    return testing::TaskPrice{ns, ns * cores / 2};
  });
}

/// Every policy there is, and what parameters change most.
std::vector<std::string> policies(std::uint64_t seed) {
  std::vector<std::string> names = {"axonn:oar=off,ors=off,oag=off",
                                    "axonn:oar=on,ors=on,oag=off",
                                    "program:depth=0",
                                    "program:depth=2",
                                    "ddp-bucket:bucket-mb=0.001,first-mb=0",
                                    "fsdp:forward-depth=2,backward=post",
                                    "lhs:rules=memory+communication+critical",
                                    "lhs:rules=less-memory+hide+near+consumer",
                                    fmt::format("random:seed={}", seed)};
  for (const std::string& name : quick_graph_policies()) names.push_back(name);
  return names;
}

/// The settings with which one graph is tried.
struct Case {
  std::shared_ptr<const graph::Graph> graph;
  std::vector<plan::Rewrite> rewrites;
  int ranks = 1;  // that its collectives join; 0: it can't be run
  std::uint64_t seed = 0;
};

Case make_case(std::uint64_t seed) {
  testing::Draws draws(seed);
  Case result;
  result.seed = seed;
  if (draws.chance(50)) {
    testing::RandomGraphOptions size;
    size.tasks = static_cast<std::size_t>(draws.between(1, 90));
    size.tensors = static_cast<std::size_t>(draws.between(1, 30));
    size.channels = static_cast<std::size_t>(draws.between(0, 3));
    size.collective_percent = static_cast<int>(draws.between(0, 70));
    result.graph = testing::in_layers(*testing::random_graph(seed, size), seed);
    result.ranks = 0;
    return result;
  }
  result.ranks = static_cast<int>(draws.between(1, 4));
  testing::ExecutableGraphOptions size;
  size.tasks = static_cast<std::size_t>(draws.between(4, 60));
  size.tensors = static_cast<std::size_t>(draws.between(4, 40));
  size.channels = static_cast<std::size_t>(draws.between(1, 3));
  size.collective_percent = static_cast<int>(draws.between(0, 60));
  result.graph = testing::in_layers(*testing::executable_graph(seed, result.ranks, size), seed);
  std::string text;
  for (const char* rewrite : {"recompute", "reshard", "bucket=4KB", "split-collective=512", "ar-to-rs-ag"}) {
    if (draws.chance(25)) text += (text.empty() ? "" : ";") + std::string(rewrite);
  }
  result.rewrites = plan::parse_rewrites(text);
  return result;
}

policy::PolicyOptions options_of(const Case& fuzzed, testing::Draws& draws) {
  policy::PolicyOptions options;
  options.compute_streams = static_cast<int>(draws.between(1, 3));
  options.seed = fuzzed.seed;
  options.cost_model = wild_costs(fuzzed.seed);
  std::int64_t scratch = 0;
  for (const graph::Tensor& tensor : fuzzed.graph->tensors())
    scratch += graph::is_state(tensor.role) ? 0 : tensor.bytes();
  constexpr int kLimits[] = {0, 0, 1, 10, 25, 50, 80, 120};  // % of all scratch; 1 byte
  const int limit = kLimits[draws.below(8)];
  options.memory_limit = limit == 1 ? 1 : scratch * limit / 100;
  return options;
}

void require(bool holds, const std::string& what) {
  if (!holds) throw Failure(what);
}

/// Runs the plan in virtual time: alone on its resources, beside others, and on ranks that drift apart.
void simulate_plan(const plan::Plan& plan, const policy::PolicyOptions& options, std::uint64_t seed) {
  testing::Draws draws(seed);
  const cost::TaskCosts costs = policy::costs_of(*plan.graph, options);
  const std::size_t tasks = plan.graph->tasks().size();
  cost::Machine machine;
  simulate::SimulationOptions alone;
  alone.link_of_channel = draws.chance(50) ? own_links() : one_link();
  if (draws.chance(50)) machine.slowdowns = {{"", "", 1.3}};
  const double step = testing::simulate_plan(plan, costs, machine, alone).step_ns;
  const simulate::Bounds bounds =
      simulate::lower_bounds({&plan.graph, 1}, {&costs, 1}, machine, options.compute_streams, alone.link_of_channel);
  require(step >= bounds.best() * (1 - 1e-9), fmt::format("{} ns is below the bound of {}", step, bounds.best()));

  constexpr std::array kGrids = {graph::Grid{2, 1, 1, 1}, graph::Grid{1, 1, 2, 2}, graph::Grid{2, 1, 2, 2},
                                 graph::Grid{3, 1, 1, 2}};
  for (int i = 0; i < 2; ++i) {
    simulate::SimulationOptions apart = alone;
    apart.grid = kGrids[draws.below(kGrids.size())];
    apart.noise = draws.chance(50) ? 10 : 0.5;
    apart.slow_rank = draws.chance(50) ? 1000 : 0.001;
    apart.steps = 2;
    apart.seed = draws.below(1U << 30);
    machine.shared_cores = draws.chance(50);
    const simulate::Simulation result = testing::simulate_plan(plan, costs, machine, apart);
    const auto expected = static_cast<std::int64_t>(tasks) * apart.grid.ranks() * apart.steps;
    require(result.events == expected, fmt::format("{} tasks ended of {}", result.events, expected));
    require(std::isfinite(result.step_ns), "the step has no end");
  }
}

class Fuzzer {
 public:
  explicit Fuzzer(const Settings& settings) : settings_(settings) {}

  int run() {
    const auto begin = std::chrono::steady_clock::now();
    for (std::uint64_t i = 0; i < settings_.graphs; ++i) {
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      if (settings_.most_seconds > 0 && seconds > settings_.most_seconds) break;
      if (i > 0 && i % 500 == 0) fmt::print("{} in {:.0f} s\n", counts(), seconds), std::fflush(stdout);
      try {
        try_graph(settings_.seed + i);
      } catch (const std::exception& error) {
        fmt::print(stderr, "FAILED after {}: {}\n  {}\n", counts(), watch_.what(), error.what());
        return 1;
      }
    }
    fmt::print("{}: all plans are safe, none deadlocked, all bits are equal\n", counts());
    return 0;
  }

 private:
  std::string counts() const { return fmt::format("{} graphs, {} plans, {} runs", graphs_, plans_, runs_); }

  /// nullopt: no order keeps the memory limit.
  static std::optional<plan::Plan> plan_within(const Case& fuzzed, const std::string& name,
                                               const policy::PolicyOptions& options) {
    try {
      plan::Plan plan = policy::compile_plan(fuzzed.graph, *policy::make_policy(name), options, fuzzed.rewrites);
      require(options.memory_limit == 0 || plan.scratch_bytes <= options.memory_limit, "the plan is above its limit");
      return plan;
    } catch (const UserError&) {
      if (options.memory_limit == 0) throw;
      return std::nullopt;
    }
  }

  void try_graph(std::uint64_t seed) {
    watch_.say(fmt::format("--graphs 1 --seed {}: making the graph", seed));
    const Case fuzzed = make_case(seed);
    testing::Draws draws(seed + 1);
    const std::vector<std::string> names = policies(seed);
    for (const std::string& name : names) {
      const policy::PolicyOptions options = options_of(fuzzed, draws);
      tell(fuzzed, name, options, "planning");
      const std::optional<plan::Plan> planned = plan_within(fuzzed, name, options);
      if (!planned) continue;
      const plan::Plan& plan = *planned;
      const std::vector<plan::Violation> violations = plan::check_plan(plan);
      require(violations.empty(), violations.empty() ? "" : violations.front().message);
      tell(fuzzed, name, options, "simulating");
      simulate_plan(plan, options, Fingerprint().add(seed).add(name).value());
      ++plans_;
    }
    if (fuzzed.ranks > 0 && settings_.execute > 0) {
      const auto expected = testing::reference_states(fuzzed.graph, fuzzed.ranks, kSteps);
      for (int i = 0; i < settings_.execute; ++i) {
        const std::string& name = names[draws.below(names.size())];
        const policy::PolicyOptions options = options_of(fuzzed, draws);
        const auto threads = static_cast<int>(draws.between(1, 2));
        if (plan_within(fuzzed, name, options)) execute(fuzzed, name, options, expected, threads);
      }
    }
    ++graphs_;
  }

  void execute(const Case& fuzzed, const std::string& policy, const policy::PolicyOptions& options,
               const std::vector<testing::StateBytes>& expected, int threads) {
    tell(fuzzed, policy, options, fmt::format("running on {} ranks, {} threads each", fuzzed.ranks, threads));
    std::vector<testing::StateBytes> actual(expected.size());
    std::ostringstream errors;
    const int code = comm::run_ranks(
        fuzzed.ranks,
        [&](comm::World& plain) {
          testing::OddWorld world = testing::hesitant_world(plain, fuzzed.seed);
          execute::Program program(world, {{"fuzz", fuzzed.graph}},
                                   {.policy = policy::make_policy(policy),
                                    .policy_options = options,
                                    .rewrites = fuzzed.rewrites,
                                    .threads = threads});
          testing::fill(*fuzzed.graph, program.state(), plain.rank());
          for (int step = 0; step < kSteps; ++step) program.run("fuzz", step);
          actual[static_cast<std::size_t>(plain.rank())] = testing::bytes_of(*fuzzed.graph, program.state());
          return 0;
        },
        errors);
    require(code == 0, "ended with " + std::to_string(code) + ": " + errors.str());
    for (std::size_t rank = 0; rank < actual.size(); ++rank) {
      const std::string difference = testing::difference(expected[rank], actual[rank]);
      require(difference.empty(), fmt::format("rank {}: {}", rank, difference));
    }
    ++runs_;
  }

  void tell(const Case& fuzzed, const std::string& policy, const policy::PolicyOptions& options,
            std::string_view doing) {
    watch_.say(
        fmt::format("--graphs 1 --seed {} --execute {}: {}, policy {}, {} compute streams, limit {}, rewrites \"{}\"",
                    fuzzed.seed, settings_.execute, doing, policy, options.compute_streams, options.memory_limit,
                    plan::to_string(fuzzed.rewrites)));
  }

  static constexpr int kSteps = 3;

  Settings settings_;
  Watch watch_;
  std::uint64_t graphs_ = 0, plans_ = 0, runs_ = 0;
};

Settings parse(int argc, char** argv) {
  Settings settings;
  if (argc % 2 == 0) throw std::invalid_argument("each option takes a value");
  for (int i = 1; i < argc; i += 2) {
    const std::string_view name = argv[i];
    const std::string value = argv[i + 1];
    if (name == "--graphs") {
      settings.graphs = std::stoull(value);
    } else if (name == "--seed") {
      settings.seed = std::stoull(value);
    } else if (name == "--execute") {
      settings.execute = std::stoi(value);
    } else if (name == "--seconds") {
      settings.most_seconds = std::stod(value);
    } else {
      throw std::invalid_argument("unknown option " + std::string(name));
    }
  }
  return settings;
}

}  // namespace
}  // namespace weft::testing

int main(int argc, char** argv) {
  try {
    return weft::testing::Fuzzer(weft::testing::parse(argc, argv)).run();
  } catch (const std::exception& error) {
    fmt::print(stderr, "plan_fuzz [--graphs N] [--seed S] [--execute PLANS] [--seconds T]: {}\n", error.what());
    return 2;
  }
}
