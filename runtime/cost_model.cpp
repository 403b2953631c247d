#include "runtime/cost_model.h"

#include <algorithm>

#include "graph/analysis.h"

namespace weft {
namespace {

constexpr double kNanoseconds = 1e9;

DType dtype_of(const Graph& graph, const Task& task) {
  return task.accesses.empty() ? DType::f32 : graph.tensor(task.accesses.front().view.tensor).dtype;
}

class AnalyticCosts final : public CostModel {
 public:
  AnalyticCosts(const Machine& machine, const Grid& grid) : machine_(machine), grid_(grid) {}

  TaskCosts costs(const Graph& graph) const override {
    TaskCosts costs;
    costs.ns.reserve(graph.tasks().size());
    costs.cpu_ns.reserve(graph.tasks().size());
    for (const Task& task : graph.tasks()) {
      const Work work = work_of(graph, task);
      if (const Channel* channel = channel_of(task.operation)) {
        costs.ns.push_back(collective(*channel, work.network_bytes) * kNanoseconds);
        costs.cpu_ns.push_back(std::min(costs.ns.back(), work.network_bytes * machine_.transport_cpu * kNanoseconds));
      } else {
        const double arithmetic = work.flops / machine_.flops(dtype_of(graph, task));
        costs.ns.push_back((machine_.task_overhead + std::max(arithmetic, work.bytes / machine_.memory_bandwidth)) *
                           kNanoseconds);
        costs.cpu_ns.push_back(0);
      }
    }
    return costs;
  }

  std::string source() const override { return "machine " + machine_.name; }

 private:
  double collective(Channel channel, double bytes) const {
    const std::int64_t ranks = group_size(grid_, channel);
    const Link& link = grid_.ranks() <= machine_.devices_per_node ? machine_.node : machine_.network;
    return static_cast<double>(ranks - 1) * link.latency + bytes / link.bandwidth;
  }

  Machine machine_;
  Grid grid_;
};

}  // namespace

std::unique_ptr<const CostModel> analytic_costs(const Machine& machine, const Grid& grid) {
  return std::make_unique<AnalyticCosts>(machine, grid);
}

const CostModel& default_cost_model() {
  static const AnalyticCosts model{Machine(), Grid()};
  return model;
}

}  // namespace weft
