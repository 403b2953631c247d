#include "train/run/describe_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "base/text/json_object.h"
#include "base/text/text_table.h"
#include "base/text/units.h"
#include "graph/named_accesses.h"
#include "kernels/cpu/isa/kernel_choice.h"
#include "ops/communication.h"
#include "runtime/plan/memory_report.h"
#include "train/step/step_config.h"

namespace weft::train {
namespace {

constexpr std::array<std::string_view, 4> kGraphs = {"train", "eval", "prefill", "decode"};
constexpr std::array<graph::Role, 5> kStateRoles = {graph::Role::parameter, graph::Role::optimizer_state,
                                                    graph::Role::cache, graph::Role::input, graph::Role::scalar};
constexpr std::array<graph::Role, 4> kScratchRoles = {graph::Role::gradient, graph::Role::activation,
                                                      graph::Role::gathered, graph::Role::workspace};

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

std::int64_t memory_in_all(const RunDescription& run) {
  std::int64_t total = run.program.scratch_bytes() + checkpoint_snapshot_bytes(run);
  for (const graph::Role role : kStateRoles) total += run.program.state().bytes_of(role);
  return total;
}

std::string size_text(double bytes) {
  return human_bytes(static_cast<std::uint64_t>(bytes));
}

std::string size_text(std::int64_t bytes) {
  return human_bytes(static_cast<std::uint64_t>(bytes));
}

std::string counted(std::int64_t number, std::string_view thing, std::string_view plural_end = "s") {
  return fmt::format("{} {}{}", number, thing, number == 1 ? "" : plural_end);
}

TextTable plans_table(const execute::Program& program) {
  TextTable table{.columns = {{.head = "plan", .words = true},
                              {.head = "tasks"},
                              {.head = "edges", .rank = 3},
                              {.head = "streams", .rank = 3},
                              {.head = "collectives", .rank = 2},
                              {.head = "sent", .rank = 2},
                              {.head = "scratch"},
                              {.head = "without sharing", .rank = 1},
                              {.head = "fingerprint", .rank = 4}}};
  for (const std::string_view name : kGraphs) {
    if (!program.contains(name)) continue;
    const plan::Plan& plan = program.plan(name);
    const auto compute =
        std::ranges::count_if(plan.streams, [](const plan::StreamPlan& stream) { return stream.stream.compute; });
    table.rows.push_back(
        {std::string(name), fmt::format("{}", plan.graph->tasks().size()),
         fmt::format("{}", plan.graph->edges().size()), fmt::format("{}", compute),
         fmt::format("{}", plan.collectives.size()), plan.collectives.empty() ? "-" : size_text(network_bytes(plan)),
         size_text(plan.scratch_bytes), size_text(plan.sum_of_tensor_bytes), fmt::format("{:016x}", plan.fingerprint)});
  }
  return table;
}

// Scratch is divided by the roles of the training step, each of which has its peak at a time of its own.
// Scratch is divided by the roles of the training step. Each role has its peak at a time of its own.
TextTable memory_table(const RunDescription& run) {
  TextTable table{.columns = {{.head = "memory of a rank", .words = true}, {.head = "bytes"}}};
  const auto add = [&](std::string_view name, std::int64_t bytes) {
    if (bytes > 0) table.rows.push_back({std::string(name), size_text(bytes)});
  };
  for (const graph::Role role : kStateRoles) add(graph::to_string(role), run.program.state().bytes_of(role));
  add("checkpoint snapshot (rank 0)", checkpoint_snapshot_bytes(run));
  add("scratch", run.program.scratch_bytes());
  const plan::MemoryReport step = plan::memory_report(run.program.plan("train"));
  for (const graph::Role role : kScratchRoles) add(fmt::format("  peak of {}", graph::to_string(role)), step.of(role));
  add("together", memory_in_all(run));
  return table;
}

TextTable communication_table(const graph::Graph& graph) {
  TextTable table{.columns = {{.head = "sent by", .words = true},
                              {.head = "group", .words = true},
                              {.head = "collective", .words = true},
                              {.head = "count", .rank = 1},
                              {.head = "bytes of a rank"}}};
  for (const ops::Communication& row : ops::communication_of(graph)) {
    table.rows.push_back({std::string(ops::to_string(row.part)), std::string(graph::to_string(row.channel)),
                          std::string(row.kind), fmt::format("{}", row.count), size_text(row.bytes)});
  }
  return table;
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

// Names, and sentences that continue below themselves on a narrow terminal: the empty third column lets them take the
// rest of the line.
TextTable facts_table(const RunDescription& run) {
  const RunConfig& config = run.config;
  const ops::ModelConfig& m = config.model;
  TextTable table{.columns = {{.words = true}, {.words = true}, {}}, .heads = false};
  const auto add = [&](std::string_view name, const std::string& text) {
    table.rows.push_back({fmt::format("{:<9}", name), text});
  };
  add("model", fmt::format("{} ({}): {} layers, hidden {}, {} heads, vocabulary {}, {} parameters, {}", m.name,
                           ops::to_string(m.family), m.layers, m.hidden, m.heads, m.vocab,
                           human_count(static_cast<double>(m.parameters())), to_string(config.dtype)));
  if (m.lora.used()) {
    add("lora", fmt::format("{}: {} parameters are trained, the others stay as they are", ops::to_string(m.lora),
                            human_count(static_cast<double>(m.adapter_parameters()))));
  }
  add("ranks",
      fmt::format("{} ({}; {}), {} each, policy {}{}", config.grid.ranks(), graph::to_string(config.grid),
                  run.world == "mpi" ? "MPI processes" : "threads of this process", counted(config.threads, "thread"),
                  config.policy, config.rewrites.empty() ? "" : ", rewrites " + plan::to_string(config.rewrites)));
  if (!run.devices.devices.empty()) add("device", to_string(run.devices));
  add("data", run.source.description());
  for (const std::string& note : run.source.notes()) add("", "note: " + note);
  add("batch", fmt::format("{} sequences of {} tokens a step: {} × {} × {}", config.global_batch, config.seq_len,
                           counted(config.grid.batch_ranks(), "rank"),
                           counted(accumulation(config), "micro-batch", "es"), config.micro_batch));
  if (config.epochs > 0) add("epochs", fmt::format("{}, in {}", config.epochs, counted(config.steps, "step")));
  if (const std::string note = summation_note(config); !note.empty()) add("", "note: " + note);
  if (run.tuned != nullptr) {
    add("tuning",
        fmt::format("{} matrix products, measured with {}; fingerprint {:016x}", run.tuned->table.choices().size(),
                    counted(run.tuned->threads, "thread"), run.tuned->table.fingerprint()));
  }
  if (run.bf16) add("bf16", "multiplied by " + to_string(*run.bf16));
  if (const PackedWeights packed = packed_weights(*run.program.plan("train").graph); packed.tensors > 0) {
    add("packing", fmt::format("{} operands of products once a step, {}", packed.tensors, size_text(packed.bytes)));
  }
  if (const std::string rewrites = plan::rewrites_for_memory(run.program.plan("train")); !rewrites.empty())
    add("rewrites", fmt::format("{}, chosen by {} to fit the memory", rewrites, config.policy));
  add("plans", fmt::format("made and checked in {:.0f} ms", run.planning_ms));
  return table;
}

}  // namespace

StyledText describe_run(const RunDescription& run, std::optional<std::size_t> width) {
  StyledText text = table_text(facts_table(run), width);
  for (const TextTable& table :
       {plans_table(run.program), memory_table(run), communication_table(*run.program.plan("train").graph)}) {
    if (!table.rows.empty()) text.add("\n").add(table_text(table, width));
  }
  return text;
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
  for (const graph::Role role : kStateRoles) {
    memory[std::string(graph::to_string(role))] = program.state().bytes_of(role);
  }
  const plan::MemoryReport step = plan::memory_report(program.plan("train"));
  for (const graph::Role role : kScratchRoles) memory[std::string(graph::to_string(role))] = step.of(role);
  memory["checkpoint_snapshot"] = checkpoint_snapshot_bytes(run);
  memory["total"] = memory_in_all(run);
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
      .add("lora", config.model.lora.used() ? JsonValue(ops::to_string(config.model.lora)) : JsonValue(nullptr))
      .add("memory_bytes", memory)
      .add("model", config.model.name)
      .add("packed_weights", packed_weights(*program.plan("train").graph).tensors)
      .add("parameters", config.model.parameters())
      .add("planning_ms", planning_ms)
      .add("plans", plans)
      .add("policy", config.policy)
      .add("ranks", config.grid.ranks())
      .add("rewrites", plan::to_string(config.rewrites))
      .add("rewrites_for_memory", plan::rewrites_for_memory(program.plan("train")))
      .add("summation_note", summation_note(config))
      .add("threads", config.threads)
      .add("train_tokens", source.train().size())
      .text();
}

}  // namespace weft::train
