#include "runtime/cost/recorded_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <variant>

#include "base/error.h"
#include "runtime/cost/cost_model.h"

namespace weft::cost {
namespace {

constexpr double kNanosecond = 1e-9;

class RecordedCosts final : public CostModel {
 public:
  RecordedCosts(std::optional<Machine> machine, DType dtype) : machine_(std::move(machine)), dtype_(dtype) {}

  TaskCosts costs(const graph::Graph& graph) const override {
    TaskCosts costs;
    for (const graph::Task& task : graph.tasks()) {
      const auto* opaque = std::get_if<graph::Opaque>(&task.operation);
      if (opaque == nullptr) throw std::logic_error(fmt::format("task '{}' has no recorded time", task.name));
      const double ns = opaque->ns >= 0 ? opaque->ns : seconds(graph, task, *opaque) / kNanosecond;
      costs.ns.push_back(ns);
      costs.cpu_ns.push_back(opaque->cpu_ns);
      costs.beside_ns.push_back(opaque->beside_ns >= 0 ? std::max(ns, opaque->beside_ns) : ns);
      costs.link_ns.push_back(opaque->link_ns >= 0 ? std::min(ns, opaque->link_ns) : ns);
    }
    return costs;
  }

  std::string source() const override {
    return machine_ ? "recorded times, and machine " + machine_->name : "recorded times";
  }

 private:
  double seconds(const graph::Graph& graph, const graph::Task& task, const graph::Opaque& opaque) const {
    if (opaque.flops <= 0 && opaque.bytes <= 0 && opaque.network_bytes <= 0) {
      throw UserError(fmt::format("task '{}' has neither a time nor a shape", task.name),
                      "\"ns\", or \"flops\", \"bytes\" or \"network_bytes\"", "add one of them to the task");
    }
    if (!machine_) {
      throw UserError(fmt::format("task '{}' has a shape and no time", task.name),
                      "a machine whose rates tell its time", "--machine NAME, or \"ns\" for the task");
    }
    if (!graph::is_collective(task.operation)) {
      return machine_->task_overhead +
             std::max(opaque.flops / machine_->flops(dtype_), opaque.bytes / machine_->memory_bandwidth);
    }
    const graph::ChannelInfo* info = graph.channel_info(opaque.queue);
    const GroupSpan span = span_of_first_ranks(*machine_, info == nullptr ? 1 : info->group_size);
    const Link& link = span.within_node() ? machine_->node : machine_->network;
    return link.latency + link.setup + opaque.network_bytes / group_bandwidth(*machine_, span);
  }

  std::optional<Machine> machine_;
  DType dtype_;
};

}  // namespace

std::unique_ptr<const CostModel> recorded_costs(std::optional<Machine> machine, DType dtype) {
  return std::make_unique<const RecordedCosts>(std::move(machine), dtype);
}

}  // namespace weft::cost
