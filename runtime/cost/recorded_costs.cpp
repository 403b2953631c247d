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

/// The process group's name. Where its tasks meet several classes, it has several queues: "pp out", "tp (2)".
std::string_view group_name(const graph::Graph& graph, graph::Channel channel) {
  const graph::ChannelInfo* info = graph.channel_info(channel);
  std::string_view name = info->name;
  if (info->together.empty()) return name;
  const std::size_t number = name.rfind(" (") + 2;
  if (name.ends_with(')') && number < name.size() && name[number] >= '0' && name[number] <= '9')
    name = name.substr(0, number - 2);
  for (const std::string_view end : {" out", " in"}) {
    if (info->direction != graph::Direction::both && name.ends_with(end)) name.remove_suffix(end.size());
  }
  return name;
}

class RecordedCosts final : public CostModel {
 public:
  RecordedCosts(std::optional<Machine> machine, DType dtype, std::vector<NamedFactor> bandwidths)
      : machine_(std::move(machine)), dtype_(dtype), bandwidths_(std::move(bandwidths)) {}

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
    for (const NamedFactor& bandwidth : bandwidths_) apply(bandwidth, graph, costs);
    return costs;
  }

  std::string source() const override {
    std::string text = machine_ ? "recorded times, and machine " + machine_->name : "recorded times";
    for (const NamedFactor& bandwidth : bandwidths_) {
      text += fmt::format(", {} × the bandwidth of {}", bandwidth.factor,
                          bandwidth.pattern == "*" ? std::string("all channels") : bandwidth.pattern);
    }
    return text;
  }

 private:
  void apply(const NamedFactor& bandwidth, const graph::Graph& graph, TaskCosts& costs) const {
    bool found = false;
    for (std::size_t i = 0; i < graph.tasks().size(); ++i) {
      const auto& opaque = std::get<graph::Opaque>(graph.tasks()[i].operation);
      const graph::Channel* channel = graph::channel_of(graph.tasks()[i].operation);
      if (channel == nullptr || graph.is_local(*channel)) continue;
      if (!matches_pattern(bandwidth.pattern, group_name(graph, *channel))) continue;
      found = true;
      const double latency = machine_ ? latency_of(graph, opaque) / kNanosecond : 0;
      const double sending = opaque.link_ns >= 0 ? costs.link_ns[i] : std::max(0.0, costs.ns[i] - latency);
      const double saved = sending - sending / bandwidth.factor;
      costs.ns[i] -= saved;
      costs.beside_ns[i] -= saved;
      costs.link_ns[i] = std::min(costs.link_ns[i] - (opaque.link_ns >= 0 ? saved : 0), costs.ns[i]);
    }
    if (found) return;
    std::vector<std::string> known;
    for (const graph::ChannelInfo& info : graph.channels()) {
      if (!info.local) known.push_back(info.name);
    }
    throw UserError(
        fmt::format("--bandwidth {}={}: no collective goes over such a channel", bandwidth.pattern, bandwidth.factor),
        known.empty() ? "a step with collectives" : fmt::format("one of {}", fmt::join(known, ", ")),
        "* stands for any text: --bandwidth 'dp*=2'");
  }

  GroupSpan span_of(const graph::Graph& graph, const graph::Opaque& opaque) const {
    const graph::ChannelInfo* info = graph.channel_info(opaque.queue);
    return span_of_first_ranks(*machine_, info == nullptr ? 1 : info->group_size);
  }
  const Link& link_of(const GroupSpan& span) const { return span.within_node() ? machine_->node : machine_->network; }
  double latency_of(const graph::Graph& graph, const graph::Opaque& opaque) const {
    const Link& link = link_of(span_of(graph, opaque));
    return link.latency + link.setup;
  }

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
    return latency_of(graph, opaque) + opaque.network_bytes / group_bandwidth(*machine_, span_of(graph, opaque));
  }

  std::optional<Machine> machine_;
  DType dtype_;
  std::vector<NamedFactor> bandwidths_;
};

}  // namespace

NamedFactor parse_bandwidth(std::string_view text) {
  const std::optional<NamedFactor> scale = parse_named_factor(text);
  if (scale && scale->factor > 0) return *scale;
  throw UserError(fmt::format("--bandwidth {}", text), "a factor above 0, or a channel and a factor",
                  "--bandwidth 2, or --bandwidth 'data=0.5'");
}

std::unique_ptr<const CostModel> recorded_costs(std::optional<Machine> machine, DType dtype,
                                                std::vector<NamedFactor> bandwidths) {
  return std::make_unique<const RecordedCosts>(std::move(machine), dtype, std::move(bandwidths));
}

}  // namespace weft::cost
