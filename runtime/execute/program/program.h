// A program: one state, the graphs over it, a plan for each, and the executor that runs them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/grid.h"
#include "runtime/comm/communicator.h"
#include "runtime/execute/executor.h"
#include "runtime/execute/state.h"
#include "runtime/execute/watchdog.h"
#include "runtime/plan/plan.h"
#include "runtime/policy/policy.h"

namespace weft::execute {

class CoreBinding;  // runtime/execute/cpu/core_binding.h
class GemmTuning;   // runtime/execute/tuning/gemm_tuning.h

struct ProgramGraph {
  std::string name;  // "train", "eval", "prefill", "decode"
  std::shared_ptr<const graph::Graph> graph;
  std::shared_ptr<const policy::Policy> policy = nullptr;  // its own; null: that of the options
  GraphOfStage of_stage = nullptr;                         // of other ranks; needed if the grid has pipeline stages
};

/// Chooses the cores of a rank; null: it stays as it is. Collective over the world.
using BindCores = std::function<std::shared_ptr<const CoreBinding>(comm::World&)>;

struct ProgramOptions {
  std::shared_ptr<const policy::Policy> policy = nullptr;  // null: default_policy()
  policy::PolicyOptions policy_options = {};
  std::vector<plan::Rewrite> rewrites = {};  // of every graph, before the policy's
  std::optional<graph::Grid> grid = {};      // of the ranks; left out, every channel is the world
  int threads = 1;
  std::int64_t kept_steps = 1;
  bool check_finite = false;  // a step that makes a NaN or an infinity ends the run, naming the first task that did
  std::shared_ptr<const GemmTuning> gemm_tuning = nullptr;  // how matrix products are computed; null: by default
  MakeExecutor make_executor = nullptr;                     // of who runs the plans; null: the CPU
  BindCores bind_cores = nullptr;  // for as long as there is an executor; planning takes all cores that there are
  double watchdog_seconds =
      0;  // without a finished task after which the process is ended with a report; 0: no watchdog
};

/// One rank's graphs over one state, with plans that share one scratch arena. Making a program is collective over the
/// world.
///
///   Program program(world, {{"train", lower_train(model, step)}}, {.threads = 2});
///   program.state().get<float>(names::kScalars)[0] = 1e-3F;
///   program.run("train", step);
class Program {
 public:
  /// Throws the exceptions of agree_on_plan().
  Program(comm::World& world, std::vector<ProgramGraph> graphs, const ProgramOptions& options);

  const State& state() const { return state_; }
  const plan::Plan& plan(std::string_view name) const { return *entry(name).plan; }
  bool contains(std::string_view name) const {
    return std::ranges::find(entries_, name, &Entry::name) != entries_.end();
  }

  /// One step of a graph, to its end on all streams. Throws RuntimeFault or PeerLost when a collective fails, and with
  /// check_finite on the rank whose task made the first NaN or infinity, in program order, of all ranks.
  void run(std::string_view name, std::int64_t step = 0) {
    start(name, step);
    finish();
  }
  /// The halves of run(). While start() answers true, a second step may be started before the first is finished:
  ///
  ///   bool under_way = false;
  ///   for (step = 0; step < steps; ++step) {
  ///     write_inputs(step);
  ///     const bool ahead = program.start("train", step);
  ///     if (under_way) program.finish();             // the step before: read its results
  ///     if (!ahead) program.finish();                // this one
  ///     under_way = ahead;
  ///   }
  ///   if (under_way) program.finish();
  bool start(std::string_view name, std::int64_t step);
  void finish();
  const plan::StepTrace& last_trace(std::string_view name) const { return executor_->last_trace(entry(name).handle); }
  /// Of the last step of a graph, traced or not.
  std::int64_t last_step_ns(std::string_view name) const { return executor_->last_step_ns(entry(name).handle); }
  std::vector<plan::StepTrace> traces(std::string_view name) const { return executor_->traces(entry(name).handle); }

  /// Parameters that the host wrote are used from the next step on; those that steps wrote are seen by the host.
  /// Inputs and scalars need neither. On the CPU there is nothing to do.
  void state_to_device() { executor_->state_to_device(); }
  void state_to_host() const { executor_->state_to_host(); }
  /// See Executor.
  bool start_state_to_host() const { return executor_->start_state_to_host(); }
  void finish_state_to_host() const { executor_->finish_state_to_host(); }

  std::int64_t device_bytes() const { return executor_->device_bytes(); }
  std::int64_t scratch_bytes() const { return executor_->scratch_bytes(); }
  std::int64_t state_bytes() const { return state_.bytes(); }
  /// Of the state and of the arena that the plans share.
  std::int64_t memory_bytes() const { return state_bytes() + scratch_bytes(); }
  const Executor& executor() const { return *executor_; }

 private:
  struct Entry {
    std::string name;
    std::shared_ptr<const plan::Plan> plan;
    Executor::PlanHandle handle = 0;
  };
  const Entry& entry(std::string_view name) const;
  void refuse_non_finite(const Entry& of, std::int64_t step);

  struct Started {
    const Entry* entry;
    std::int64_t step;
  };

  comm::World& world_;
  const bool check_finite_;
  std::vector<Entry> entries_;
  std::deque<Started> started_;  // and not finished
  State state_;                  // outlives the executor
  std::shared_ptr<const CoreBinding> binding_;
  std::unique_ptr<Executor> executor_;  // outlives the watchdog, which asks it
  std::unique_ptr<Watchdog> watchdog_;
};

}  // namespace weft::execute
