#include "train/run/describe_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "base/text/json_object.h"
#include "base/text/units.h"
#include "graph/named_accesses.h"
#include "kernels/cpu/isa/kernel_choice.h"
#include "ops/communication.h"
#include "runtime/plan/memory_report.h"

namespace weft::train {
namespace {

constexpr std::array<std::string_view, 4> kGraphs = {"train", "eval", "prefill", "decode"};
constexpr std::array<graph::Role, 5> kStateRoles = {graph::Role::parameter, graph::Role::optimizer_state,
                                                    graph::Role::cache, graph::Role::input, graph::Role::scalar};

// Bytes that one rank sends in all collectives of a plan.
double network_bytes(const plan::Plan& plan) {
  double bytes = 0;
  for (graph::TaskId id : plan.collectives) {
    const graph::Task& task = plan.graph->task(id);
    const DType dtype = plan.graph->tensor(graph::payload_of(task)->view.tensor).dtype;
    bytes += graph::work_of(task.operation, static_cast<double>(size_of(dtype))).network_bytes;
  }
  return bytes;
}

// The copy of parameters and optimizer state that is written while the next steps run.
std::int64_t checkpoint_snapshot_bytes(const RunDescription& run) {
  if (run.config.save_every == 0) return 0;
  return run.program.state().bytes_of(graph::Role::parameter) +
         run.program.state().bytes_of(graph::Role::optimizer_state);
}

std::string plan_line(std::string_view name, const plan::Plan& plan) {
  const auto compute = std::count_if(plan.streams.begin(), plan.streams.end(),
                                     [](const plan::StreamPlan& stream) { return stream.stream.compute; });
  std::string line = fmt::format("  {:<8} {} tasks, {} edges, {} compute stream{}", name, plan.graph->tasks().size(),
                                 plan.graph->edges().size(), compute, compute == 1 ? "" : "s");
  if (!plan.collectives.empty()) {
    line += fmt::format(", {} collective{}, {} sent a rank", plan.collectives.size(),
                        plan.collectives.size() == 1 ? "" : "s",
                        human_bytes(static_cast<std::uint64_t>(network_bytes(plan))));
  }
  return line + fmt::format("; scratch {} (without sharing {}); fingerprint {:016x}\n",
                            human_bytes(static_cast<std::uint64_t>(plan.scratch_bytes)),
                            human_bytes(static_cast<std::uint64_t>(plan.sum_of_tensor_bytes)), plan.fingerprint);
}

// Bytes that a rank sends in a step: one line per part of the model, with the kinds of collectives on each axis.
std::string communication_lines(const graph::Graph& graph) {
  std::string text;
  std::optional<ops::ModelPart> part;
  for (const ops::Communication& row : ops::communication_of(graph)) {
    text += row.part == part ? ","
                             : fmt::format("{}{:<11}{:<10}", text.empty() ? "" : "\n", text.empty() ? "sent" : "",
                                           ops::to_string(row.part));
    part = row.part;
    text += fmt::format(" {} {} × {} {}", graph::to_string(row.channel), row.count, row.kind,
                        human_bytes(static_cast<std::uint64_t>(row.bytes)));
  }
  return text.empty() ? text : text + "\n";
}

// The scratch of a training step by role.
std::string scratch_line(const plan::Plan& plan) {
  const plan::MemoryReport report = plan::memory_report(plan);
  std::string text = "           scratch of the training step, each role at its peak:";
  for (const graph::Role role :
       {graph::Role::gradient, graph::Role::activation, graph::Role::gathered, graph::Role::workspace}) {
    if (report.of(role) == 0) continue;
    text += fmt::format(" {} {},", graph::to_string(role), human_bytes(static_cast<std::uint64_t>(report.of(role))));
  }
  text.back() = '\n';
  return text;
}

struct PackedWeights {
  std::int64_t tensors = 0, bytes = 0;
};

PackedWeights packed_weights(const graph::Graph& graph) {
  PackedWeights packed;
  for (const graph::Task& task : graph.tasks()) {
    if (!std::holds_alternative<graph::PackWeight>(task.operation)) continue;
    ++packed.tensors;
    packed.bytes += graph.tensor(graph::NamedAccesses<graph::PackWeight>(task)["packed"].view.tensor).bytes();
  }
  return packed;
}

JsonArray communication_json(const graph::Graph& graph) {
  JsonArray rows;
  for (const ops::Communication& row : ops::communication_of(graph)) {
    rows.add(JsonObject()
                 .add("count", row.count)
                 .add("group", graph::to_string(row.channel))
                 .add("kind", row.kind)
                 .add("part", ops::to_string(row.part))
                 .add("sent_bytes", row.bytes));
  }
  return rows;
}

}  // namespace

std::string describe_run(const RunDescription& run) {
  const auto& [config, source, program, planning_ms, world, devices, tuned, bf16] = run;
  const auto bytes = [](std::int64_t n) { return human_bytes(static_cast<std::uint64_t>(n)); };
  const ops::ModelConfig& m = config.model;
  std::string text =
      fmt::format("model      {} ({}): {} layers, hidden {}, {} heads, vocabulary {}, {} parameters, {}\n", m.name,
                  ops::to_string(m.family), m.layers, m.hidden, m.heads, m.vocab,
                  human_count(static_cast<double>(m.parameters())), to_string(config.dtype));
  text += fmt::format("ranks      {} ({}; {}), {} thread{} each, policy {}{}\n", config.grid.ranks(),
                      graph::to_string(config.grid), world == "mpi" ? "MPI processes" : "threads of this process",
                      config.threads, config.threads == 1 ? "" : "s", config.policy,
                      config.rewrites.empty() ? "" : ", rewrites " + plan::to_string(config.rewrites));
  if (!devices.devices.empty()) text += fmt::format("device     {}\n", to_string(devices));
  text += fmt::format("data       {}\n", source.description());
  for (const std::string& note : source.notes()) text += fmt::format("           note: {}\n", note);
  text += fmt::format("batch      {} sequences of {} tokens a step: {} rank{} × {} micro-batch{} × {}\n",
                      config.global_batch, config.seq_len, config.grid.batch_ranks(),
                      config.grid.batch_ranks() == 1 ? "" : "s", accumulation(config),
                      accumulation(config) == 1 ? "" : "es", config.micro_batch);
  if (tuned != nullptr) {
    text += fmt::format("tuning     {} matrix products, measured with {} thread{}; fingerprint {:016x}\n",
                        tuned->table.choices().size(), tuned->threads, tuned->threads == 1 ? "" : "s",
                        tuned->table.fingerprint());
  }
  if (bf16) text += fmt::format("bf16       multiplied by {}\n", to_string(*bf16));
  if (const PackedWeights packed = packed_weights(*program.plan("train").graph); packed.tensors > 0) {
    text += fmt::format("packing    {} operands of products once a step, {}\n", packed.tensors, bytes(packed.bytes));
  }
  text += fmt::format("plans      made and checked in {:.0f} ms\n", planning_ms);
  for (const std::string_view name : kGraphs) {
    if (program.contains(name)) text += plan_line(name, program.plan(name));
  }
  text += "memory     a rank:";
  std::int64_t total = program.scratch_bytes();
  for (const graph::Role role : kStateRoles) {
    const std::int64_t size = program.state().bytes_of(role);
    if (size > 0) text += fmt::format(" {} {},", graph::to_string(role), bytes(size));
    total += size;
  }
  if (const std::int64_t snapshot = checkpoint_snapshot_bytes(run); snapshot > 0) {
    text += fmt::format(" checkpoint snapshot {} (rank 0),", bytes(snapshot));
    total += snapshot;
  }
  text += fmt::format(" scratch {}; together {}\n", bytes(program.scratch_bytes()), bytes(total));
  const plan::Plan& step = program.plan("train");
  return text + scratch_line(step) + communication_lines(*step.graph);
}

std::string describe_run_json(const RunDescription& run) {
  const auto& [config, source, program, planning_ms, world, devices, tuned, bf16] = run;
  std::map<std::string, JsonValue> plans;
  for (const std::string_view name : kGraphs) {
    if (!program.contains(name)) continue;
    const plan::Plan& plan = program.plan(name);
    plans.emplace(name, JsonObject()
                            .add("collectives", plan.collectives.size())
                            .add("edges", plan.graph->edges().size())
                            .add("fingerprint", fmt::format("{:016x}", plan.fingerprint))
                            .add("network_bytes", network_bytes(plan))
                            .add("scratch_bytes", plan.scratch_bytes)
                            .add("sum_of_tensor_bytes", plan.sum_of_tensor_bytes)
                            .add("tasks", plan.graph->tasks().size()));
  }
  JsonValue tuning = nullptr, bf16_products = nullptr;
  if (bf16) bf16_products = to_string(bf16->unit);
  if (tuned != nullptr) tuning = fmt::format("{:016x}", tuned->table.fingerprint());
  std::map<std::string, std::int64_t> memory = {{"scratch", program.scratch_bytes()}};
  std::int64_t total = program.scratch_bytes();
  for (const graph::Role role : kStateRoles) {
    memory[std::string(graph::to_string(role))] = program.state().bytes_of(role);
    total += program.state().bytes_of(role);
  }
  const plan::MemoryReport step = plan::memory_report(program.plan("train"));
  for (const graph::Role role :
       {graph::Role::gradient, graph::Role::activation, graph::Role::gathered, graph::Role::workspace}) {
    memory[std::string(graph::to_string(role))] = step.of(role);
  }
  memory["checkpoint_snapshot"] = checkpoint_snapshot_bytes(run);
  memory["total"] = total + checkpoint_snapshot_bytes(run);
  return JsonObject()
      .add("bf16_products", bf16_products)
      .add("communication", communication_json(*program.plan("train").graph))
      .add("communicator", devices.communicator)
      .add("device", devices.devices.empty() ? "cpu" : "cuda")
      .add("devices", to_json(devices))
      .add("dtype", to_string(config.dtype))
      .add("gemm_tuning", tuning)
      .add("grid", graph::to_string(config.grid))
      .add("held_out_tokens", source.held_out().size())
      .add("kernels", cpu::kernel_level())
      .add("memory_bytes", memory)
      .add("model", config.model.name)
      .add("packed_weights", packed_weights(*program.plan("train").graph).tensors)
      .add("parameters", config.model.parameters())
      .add("planning_ms", planning_ms)
      .add("plans", plans)
      .add("policy", config.policy)
      .add("ranks", config.grid.ranks())
      .add("rewrites", plan::to_string(config.rewrites))
      .add("threads", config.threads)
      .add("train_tokens", source.train().size())
      .text();
}

}  // namespace weft::train
