// Weft as a contestant: a graph of real operations, planned over compute streams and replayed by CpuExecutor.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "runtime/comm/local.h"
#include "runtime/execute/cpu/cpu_executor.h"
#include "runtime/plan/checker.h"
#include "runtime/plan/plan.h"

namespace weft::bench {

/// One plan on one rank; each stream has one thread.
class WeftReplay {
 public:
  WeftReplay(std::shared_ptr<const plan::Plan> plan, bool traced)
      : plan_(std::move(plan)),
        world_(std::move(comm::make_local_worlds(1).front())),
        state_(std::vector<const graph::Graph*>{plan_->graph.get()}),
        executor_(state_, execute::CommunicatorSet(*world_, {}), {.threads = 1, .kept_steps = traced ? 1 : 0}) {
    handle_ = executor_.load(plan_);
    executor_.run(handle_);
  }

  void reset() {}
  void run() { executor_.run(handle_); }
  const plan::StepTrace& trace() const { return executor_.last_trace(handle_); }
  const plan::Plan& plan() const { return *plan_; }

 private:
  std::shared_ptr<const plan::Plan> plan_;
  std::unique_ptr<comm::World> world_;
  execute::State state_;
  execute::CpuExecutor executor_;
  execute::CpuExecutor::PlanHandle handle_ = 0;
};

}  // namespace weft::bench
