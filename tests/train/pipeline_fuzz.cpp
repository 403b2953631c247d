// Pipelines with schedules that were changed at random: messages that come earlier or later, collectives in another
// order, tasks moved, waits dropped. Each is judged by the checks and then run by the real executor on ranks in
// threads, under a time limit. What the checks accept must run to its end with the bits of the unchanged schedule, also
// on fake devices, which ranks share or have each for itself. What they refuse as a deadlock must not end.
//
//   pipeline_fuzz --mutants 10000 --seed 1
//   pipeline_fuzz --mutants 1 --seed 4711            the one that a failure named
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "ops/lower.h"
#include "runtime/comm/launch.h"
#include "runtime/execute/cpu/cpu_executor.h"
#include "runtime/plan/checker.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/compile/compile_plan.h"
#include "tests/runtime/random_graph.h"
#include "tests/train/device_run.h"

namespace weft::testing {
namespace {

using Bits = std::vector<std::vector<std::byte>>;  // of each rank's state after the steps

constexpr int kSteps = 2;

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A schedule of a tiny model, before it is changed.
struct Pipeline {
  GridRun of;
  std::vector<std::shared_ptr<const graph::Graph>> graphs;
  std::vector<plan::Order> orders;
  Bits bits;
};

std::vector<std::shared_ptr<const plan::Plan>> plans_of(const Pipeline& pipeline,
                                                        const std::vector<plan::Order>& orders) {
  std::vector<std::shared_ptr<const plan::Plan>> plans;
  for (std::size_t k = 0; k < orders.size(); ++k) {
    plans.push_back(
        std::make_shared<const plan::Plan>(plan::make_plan(pipeline.graphs[k], orders[k], pipeline.of.policy)));
  }
  return plans;
}

std::unique_ptr<execute::Executor> on_cpu(comm::World& world, const execute::State& state, const graph::Grid& grid) {
  std::vector<graph::Channel> channels;
  for (std::size_t i = 0; i < graph::kAxisChannels; ++i) channels.push_back(static_cast<graph::Channel>(i));
  return execute::make_cpu_executor(state, execute::CommunicatorSet(world, channels, grid),
                                    execute::CpuExecutorOptions{.rank = world.rank(), .kept_steps = 0});
}

/// The bits of all ranks after the steps, on the CPU unless a device is given; nullopt if they don't end or a
/// communicator refuses.
std::optional<Bits> run(const Pipeline& pipeline, const std::vector<std::shared_ptr<const plan::Plan>>& plans,
                        std::chrono::milliseconds limit, const execute::MakeExecutor& on_device = nullptr) {
  const graph::Grid& grid = pipeline.of.step.grid;
  const auto ranks = static_cast<std::size_t>(grid.ranks());
  Bits bits(ranks);
  std::atomic<comm::World*> some_world{nullptr};
  std::atomic<bool> done{false};
  std::jthread watch([&](const std::stop_token& stop) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (!stop.stop_requested() && !done) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      comm::World* const world = some_world;
      if (std::chrono::steady_clock::now() < deadline || world == nullptr) continue;
      world->abort("a deadlock", 3);
      done = true;
      return;
    }
  });
  std::ostringstream errors;
  std::atomic<std::size_t> left{ranks};
  const int code = comm::run_ranks(
      static_cast<int>(ranks),
      [&](comm::World& world) {
        const graph::Coordinates at = graph::coordinates_of(grid, world.rank());
        const auto& plan = plans[static_cast<std::size_t>(at.pipe)];
        const execute::State state(std::array{plan->graph});
        begin_rank(pipeline.of, state, world.rank(), ops::model_parameters(pipeline.of.model));
        write_inputs(pipeline.of, state, world.rank(), 0);
        const auto executor = on_device ? on_device(world, state) : on_cpu(world, state, grid);
        const auto handle = executor->load(plan);
        executor->state_to_device();
        world.barrier();
        some_world = &world;
        for (int step = 0; step < kSteps; ++step) executor->run(handle, step);
        executor->state_to_host();
        bits[static_cast<std::size_t>(world.rank())].assign(state.begin(), state.begin() + state.bytes());
        // The watch may still hold this world.
        if (--left == 0) done = true;
        while (!done) std::this_thread::yield();
        return 0;
      },
      errors);
  done = true;
  if (code != 0) return std::nullopt;
  return bits;
}

Pipeline make_pipeline(std::uint64_t seed) {
  Draws draws(seed);
  Pipeline made;
  made.of.lr = 0.01, made.of.warmup = 1;
  // GPT-2's embedding is tied.
  made.of.model = of_family(draws.chance(50) ? ops::Family::gpt2 : ops::Family::llama,
                            {.layers = 6, .hidden = 8, .heads = 2, .kv_heads = 2, .ffn = 8, .vocab = 7, .context = 2});
  const std::vector<std::string> policies = policy::pipeline_policy_names();
  do {
    made.of.policy = policies[draws.below(policies.size())];
  } while (made.of.policy == "serial");
  if (made.of.policy == "anneal") made.of.policy += ":iterations=20";
  if (made.of.policy == "portfolio") made.of.policy += ":budget=20";
  if (made.of.policy == "exact") made.of.policy += ":budget=20,nodes=1000";
  const auto policy = policy::make_policy(made.of.policy);
  const std::int64_t stages = draws.between(2, 3);
  made.of.step.grid.pipe = stages;
  if (stages == 2 && draws.chance(30)) made.of.step.grid.data = 2;
  made.of.step.seq_len = 2;
  made.of.step.micro_batches = 2 * stages;
  made.of.step.pipeline = ops::balanced_layout(made.of.model, 2, stages, policy->chunks());
  for (std::int64_t k = 0; k < stages; ++k) made.graphs.push_back(ops::lower_train(made.of.model, made.of.step, k));
  policy::Decision decision = policy::decide(made.graphs, *policy);
  made.graphs = std::move(decision.graphs);
  made.orders = std::move(decision.orders);
  const auto bits = run(made, plans_of(made, made.orders), std::chrono::seconds(60));
  if (!bits) throw Failure(fmt::format("policy {} doesn't end", made.of.policy));
  made.bits = *bits;
  return made;
}

/// The places between which a task may stand without breaking an edge of its own graph.
std::pair<std::size_t, std::size_t> room_of(const graph::Graph& graph, const plan::Order& order, std::size_t at) {
  std::vector<std::size_t> place(graph.tasks().size());
  for (std::size_t i = 0; i < order.sequence.size(); ++i) place[order.sequence[i].task.index()] = i;
  const graph::TaskId task = order.sequence[at].task;
  std::size_t first = 0, last = order.sequence.size() - 1;
  const auto stay_within = [&](std::span<const graph::Edge> edges) {
    for (const graph::Edge& edge : edges) {
      if (edge.distance > 0) continue;
      if (edge.to == task) first = std::max(first, place[edge.from.index()] + 1);
      if (edge.from == task) last = std::min(last, place[edge.to.index()] - 1);
    }
  };
  stay_within(graph.edges());
  stay_within(order.added_edges);
  return {first, last};
}

enum class Change : std::uint8_t { message, collective, computation, wait };

constexpr std::array kChanges = {"message moved", "collective moved", "computation moved", "wait dropped"};

bool concerns(Change change, const graph::Task& task) {
  const graph::Channel* const channel = graph::channel_of(task.operation);
  switch (change) {
    case Change::message:
      return channel != nullptr && graph::is_message(*channel);
    case Change::collective:
      return channel != nullptr && !graph::is_message(*channel);
    case Change::computation:
      return channel == nullptr;
    case Change::wait:
      return true;
  }
  return false;
}

/// Moves a task within its room. False: there is none to be moved.
bool move_task(const Pipeline& pipeline, std::vector<plan::Order>& orders, Change change, Draws& draws) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    const auto k = static_cast<std::size_t>(draws.below(orders.size()));
    plan::Order& order = orders[k];
    const graph::Graph& graph = *pipeline.graphs[k];
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < order.sequence.size(); ++i) {
      if (concerns(change, graph.task(order.sequence[i].task))) places.push_back(i);
    }
    if (places.empty()) continue;
    const std::size_t from = places[draws.below(places.size())];
    const auto [first, last] = room_of(graph, order, from);
    if (first >= last) continue;
    const std::size_t to = first + static_cast<std::size_t>(draws.below(last - first + 1));
    if (to == from) continue;
    const auto begin = order.sequence.begin();
    const auto at = [&](std::size_t i) { return begin + static_cast<std::ptrdiff_t>(i); };
    if (to < from) std::rotate(at(to), at(from), at(from + 1));
    if (to > from) std::rotate(at(from), at(from + 1), at(to + 1));
    return true;
  }
  return false;
}

bool drop_wait(std::vector<std::shared_ptr<const plan::Plan>>& plans, Draws& draws) {
  const auto k = static_cast<std::size_t>(draws.below(plans.size()));
  plan::Plan changed = *plans[k];
  std::vector<plan::Entry*> waiting;
  for (plan::StreamPlan& stream : changed.streams) {
    for (plan::Entry& entry : stream.entries) {
      if (!entry.waits.empty()) waiting.push_back(&entry);
    }
  }
  if (waiting.empty()) return false;
  std::vector<plan::Wait>& waits = waiting[draws.below(waiting.size())]->waits;
  waits.erase(waits.begin() + static_cast<std::ptrdiff_t>(draws.below(waits.size())));
  plans[k] = std::make_shared<const plan::Plan>(std::move(changed));
  return true;
}

std::vector<plan::Violation> violations_of(const std::vector<std::shared_ptr<const plan::Plan>>& plans) {
  std::vector<const plan::Plan*> all;
  for (const auto& plan : plans) all.push_back(plan.get());
  return plan::check(all);
}

/// By plan::Violation::Kind.
constexpr std::array kViolations = {"structure",
                                    "missing wait",
                                    "memory overlap",
                                    "order of collectives",
                                    "deadlock",
                                    "messages don't meet",
                                    "deadlock with one queue a rank"};

class Fuzzer {
 public:
  Fuzzer(std::uint64_t mutants, std::uint64_t seed) : mutants_(mutants), seed_(seed) {}

  int run_all() {
    constexpr std::uint64_t kOfAPipeline = 50;
    for (std::uint64_t i = 0; i < mutants_; ++i) {
      const std::uint64_t seed = seed_ + i;
      if (pipeline_ == nullptr || seed / kOfAPipeline != pipeline_seed_) {
        pipeline_seed_ = seed / kOfAPipeline;
        pipeline_ = std::make_unique<Pipeline>(make_pipeline(pipeline_seed_));
      }
      try {
        try_mutant(seed);
      } catch (const std::exception& error) {
        fmt::print(stderr, "FAILED: --mutants 1 --seed {} (policy {}, {}): {}\n", seed, pipeline_->of.policy,
                   graph::to_string(pipeline_->of.step.grid), error.what());
        return 1;
      }
      if ((i + 1) % 500 == 0) tell(i + 1);
    }
    tell(mutants_);
    return 0;
  }

 private:
  void try_mutant(std::uint64_t seed) {
    Draws draws(seed * 77 + 1);
    const auto change = static_cast<Change>(draws.below(4));
    std::vector<plan::Order> orders = pipeline_->orders;
    const std::int64_t moves = draws.between(1, 3);
    for (std::int64_t i = 0; change != Change::wait && i < moves; ++i) {
      if (!move_task(*pipeline_, orders, change, draws)) return count(change, "nothing to move");
    }
    auto plans = plans_of(*pipeline_, orders);
    if (change == Change::wait && !drop_wait(plans, draws)) return count(change, "nothing to move");
    const std::vector<plan::Violation> violations = violations_of(plans);
    const bool deadlock = std::ranges::any_of(
        violations, [](const plan::Violation& v) { return v.kind == plan::Violation::Kind::deadlock; });
    // A run takes milliseconds. A loaded machine may be slow, so an accepted plan gets much longer.
    const auto limit = std::chrono::milliseconds(violations.empty() ? 60'000 : deadlock ? 150 : 1'000);
    const std::optional<Bits> bits = run(*pipeline_, plans, limit);
    const bool right = bits && *bits == pipeline_->bits;
    if (violations.empty()) {
      if (!bits) throw Failure("accepted, and doesn't end");
      if (!right) throw Failure("accepted, and changes bits");
      for (const auto& [where, device] :
           {std::pair{"a shared device", on_fake(pipeline_->of, 1).make_executor},
            std::pair{"devices of their own", on_own_fakes(pipeline_->of, 1).make_executor}}) {
        const std::optional<Bits> there = run(*pipeline_, plans, limit, device);
        if (!there) throw Failure(fmt::format("accepted, and doesn't end on {}", where));
        if (*there != pipeline_->bits) throw Failure(fmt::format("accepted, and changes bits on {}", where));
      }
      return count(change, "accepted: same bits");
    }
    const plan::Violation& first = violations.front();
    if (deadlock && bits) throw Failure("refused as a deadlock, and runs: " + first.message);
    count(change, fmt::format("refused, {}: {}", kViolations.at(static_cast<std::size_t>(first.kind)),
                              !bits    ? "doesn't end or is refused by a communicator"
                              : !right ? "changes bits"
                                       : "ran right this time"));
  }

  void count(Change change, const std::string& what) {
    ++counts_[fmt::format("{}: {}", kChanges.at(static_cast<std::size_t>(change)), what)];
  }

  void tell(std::uint64_t done) const {
    fmt::print("{} mutants\n", done);
    for (const auto& [what, times] : counts_) fmt::print("  {:>6} {}\n", times, what);
    std::fflush(stdout);
  }

  const std::uint64_t mutants_, seed_;
  std::uint64_t pipeline_seed_ = 0;
  std::unique_ptr<Pipeline> pipeline_;
  std::map<std::string, std::uint64_t> counts_;
};

}  // namespace
}  // namespace weft::testing

int main(int argc, char** argv) {
  std::uint64_t mutants = 100, seed = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    (name == "--seed" ? seed : mutants) = std::strtoull(argv[i + 1], nullptr, 10);
  }
  try {
    return weft::testing::Fuzzer(mutants, seed).run_all();
  } catch (const std::exception& error) {
    fmt::print(stderr, "pipeline_fuzz [--mutants N] [--seed S]: {}\n", error.what());
    return 2;
  }
}
