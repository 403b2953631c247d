#include "train/describe_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text/json_object.h"
#include "base/text/text_table.h"
#include "base/units.h"
#include "graph/named_accesses.h"
#include "kernels/cpu/isa/kernel_choice.h"
#include "ops/communication.h"
#include "runtime/comm/mpi.h"
#include "runtime/execute/device/devices.h"
#include "runtime/plan/plan.h"
#include "train/config/config_table.h"
#include "train/run/run_files.h"
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
std::int64_t checkpoint_snapshot_bytes(const TrainingSetup& run) {
  if (run.config().save_every == 0 || run.config().copy_beside) return 0;
  return run.program->state().bytes_of(graph::Role::parameter) +
         run.program->state().bytes_of(graph::Role::optimizer_state);
}

std::int64_t memory_in_all(const TrainingSetup& run) {
  std::int64_t total = run.program->scratch_bytes() + checkpoint_snapshot_bytes(run);
  for (const graph::Role role : kStateRoles) total += run.program->state().bytes_of(role);
  return total;
}

template <class Bytes>
std::string size_text(Bytes bytes) {
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

// Scratch is divided by the roles of the training step. Each role has its peak at a time of its own.
TextTable memory_table(const TrainingSetup& run) {
  TextTable table{.columns = {{.head = "memory of a rank", .words = true}, {.head = "bytes"}}};
  const auto add = [&](std::string_view name, std::int64_t bytes) {
    if (bytes > 0) table.rows.push_back({std::string(name), size_text(bytes)});
  };
  for (const graph::Role role : kStateRoles) add(graph::to_string(role), run.program->state().bytes_of(role));
  add("checkpoint snapshot (rank 0)", checkpoint_snapshot_bytes(run));
  add("scratch", run.program->scratch_bytes());
  const plan::MemoryReport step = plan::memory_report(run.program->plan("train"));
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

std::string model_text(const RunConfig& config) {
  const ops::ModelConfig& m = config.model;
  const auto count = [](std::int64_t parameters) { return human_count(static_cast<double>(parameters)); };
  const std::string experts =
      m.experts > 0 ? fmt::format("{} experts ({} a token), ", m.experts, m.experts_per_token) : "";
  const std::string active = m.experts > 0 ? fmt::format(" ({} active)", count(m.active_parameters())) : "";
  return fmt::format("{} ({}): {} layers, hidden {}, {} heads, {}vocabulary {}, {} parameters{}, {}", m.name,
                     ops::to_string(m.family), m.layers, m.hidden, m.heads, experts, m.vocab, count(m.parameters()),
                     active, to_string(config.dtype));
}

std::string trained_parameters(const ops::ModelConfig& model) {
  return human_count(static_cast<double>(model.adapter_parameters()));
}

/// "MPI processes", or what threads are called here.
std::string_view kind_of_ranks(const comm::World& world, std::string_view threads) {
  return !world.of_processes() ? threads : world.name() == "mpi" ? "MPI processes" : "TCP processes";
}

std::string ranks_text(const TrainingSetup& run) {
  const RunConfig& config = run.config();
  return fmt::format("{} ({}; {}), {} each, policy {}{}", config.grid.ranks(), graph::to_string(config.grid),
                     kind_of_ranks(run.world, "threads of this process"), counted(config.threads, "thread"),
                     config.policy, config.rewrites.empty() ? "" : ", rewrites " + plan::to_string(config.rewrites));
}

std::string batch_text(const RunConfig& config) {
  const graph::Grid& grid = config.grid;
  const std::string sharers = grid.context == 1
                                  ? counted(grid.batch_ranks(), "rank")
                                  : fmt::format("{} of {} ranks", counted(grid.batch_ranks(), "group"), grid.context);
  return fmt::format("{} sequences of {} tokens a step: {} × {} × {}", config.global_batch, config.seq_len, sharers,
                     counted(accumulation(config), "micro-batch", "es"), config.micro_batch);
}

// Names, and sentences that continue below themselves on a narrow terminal: the empty third column lets them take the
// rest of the line.
TextTable table_of(const std::vector<std::pair<std::string_view, std::string>>& facts) {
  TextTable table{.columns = {{.words = true}, {.words = true}, {}}, .heads = false};
  for (const auto& [name, text] : facts) table.rows.push_back({fmt::format("{:<9}", name), text});
  return table;
}

/// Notes on the run's files, and on sums that differ from another run's in rounding.
std::vector<std::string> notes_of(const TrainingSetup& run) {
  std::vector<std::string> notes = run.inputs.source.notes;
  if (const std::string note = summation_note(run.config()); !note.empty()) notes.push_back(note);
  return notes;
}

std::array<TextTable, 3> tables_of(const TrainingSetup& run) {
  return {plans_table(*run.program), memory_table(run), communication_table(*run.program->plan("train").graph)};
}

/// Of a run that may not repeat its bits; "" for others.
std::string note_of_gradient(const RunConfig& config) {
  if (config.attention_gradient == execute::AttentionGradient::deterministic) return "";
  return "the fastest gradient, which may have other bits in another run";
}

TextTable facts_table(const TrainingSetup& run) {
  const RunConfig& config = run.config();
  std::vector<std::pair<std::string_view, std::string>> facts;
  facts.emplace_back("model", model_text(config));
  if (config.model.lora.used()) {
    facts.emplace_back("lora", fmt::format("{}: {} parameters are trained, the others stay as they are",
                                           ops::to_string(config.model.lora), trained_parameters(config.model)));
  }
  facts.emplace_back("ranks", ranks_text(run));
  if (!run.devices.devices.empty()) facts.emplace_back("device", to_string(run.devices));
  facts.emplace_back("data", run.inputs.source.description());
  facts.emplace_back("batch", batch_text(config));
  if (config.epochs > 0)
    facts.emplace_back("epochs", fmt::format("{}, in {}", config.epochs, counted(config.steps, "step")));
  for (const std::string& note : notes_of(run)) facts.emplace_back("", "note: " + note);
  if (run.tuned != nullptr) {
    facts.emplace_back("tuning",
                       fmt::format("{}, measured with {}; fingerprint {:016x}", execute::contents_of(run.tuned->table),
                                   counted(run.tuned->threads, "thread"), run.tuned->table.fingerprint()));
  }
  if (const std::string note = note_of_gradient(config); !note.empty()) facts.emplace_back("attention", note);
  if (run.bf16) facts.emplace_back("bf16", "multiplied by " + to_string(*run.bf16));
  if (const PackedWeights packed = packed_weights(*run.program->plan("train").graph); packed.tensors > 0) {
    facts.emplace_back("packing",
                       fmt::format("{} operands of products once a step, {}", packed.tensors, size_text(packed.bytes)));
  }
  if (const std::string rewrites = plan::rewrites_for_memory(run.program->plan("train")); !rewrites.empty())
    facts.emplace_back("rewrites", fmt::format("{}, chosen by {} to fit the memory", rewrites, config.policy));
  facts.emplace_back("plans", fmt::format("made and checked in {:.0f} ms", run.planning_ms));
  return table_of(facts);
}

/// "loom (ranks 0, 1), spindle (ranks 2, 3)".
std::string hosts_text(comm::World& world) {
  std::map<std::string, std::vector<std::string>> ranks;
  int rank = 0;
  for (const std::string& host : comm::of_ranks(world, host_name())) ranks[host].push_back(fmt::format("{}", rank++));
  std::vector<std::string> hosts;
  for (const auto& [host, numbers] : ranks) {
    hosts.push_back(fmt::format("{} (rank{} {})", host, numbers.size() == 1 ? "" : "s", join(numbers)));
  }
  return join(hosts);
}

void log_libraries(const RunConfig& config, bool mpi) {
  std::vector<std::string> libraries;
  for (const auto& [name, version] : library_versions()) {
    if (name != "weft") libraries.push_back(fmt::format("{} {}", name, version));  // logged earlier, with its commit
  }
  if (mpi) libraries.push_back(comm::mpi_version());
  if (config.device == DeviceKind::cuda) {
    for (const std::string& library : execute::report_devices().libraries) libraries.push_back(library);
  }
  Log(LogTopic::run, 0).info("libraries: {}", join(libraries));
}

void log_tuning(const TrainingSetup& run) {
  const Log log(LogTopic::tuning, 0);
  if (run.tuned != nullptr) {
    log.info("{} by a table with fingerprint {:016x}, measured on {} with {}, {} threads",
             execute::contents_of(run.tuned->table), run.tuned->table.fingerprint(), run.tuned->machine.isa,
             run.tuned->machine.library, run.tuned->threads);
  } else {
    log.info("matrix products by the default methods");
  }
  if (const std::string note = note_of_gradient(run.config()); !note.empty()) log.info("attention: {}", note);
  if (run.bf16) log.info("bf16 is multiplied by {}", to_string(*run.bf16));
}

void log_plans(const TrainingSetup& run) {
  const Log log(LogTopic::plan, 0);
  log.info("policy {}; all plans made and checked in {:.0f} ms", run.config().policy, run.planning_ms);
  if (const std::string rewrites = plan::rewrites_for_memory(run.program->plan("train")); !rewrites.empty())
    log.info("train: rewrites chosen to fit the memory: {}", rewrites);
  const std::array<TextTable, 3> tables = tables_of(run);
  constexpr std::array topics = {LogTopic::plan, LogTopic::memory, LogTopic::comm};
  for (std::size_t i = 0; i < tables.size(); ++i) {
    if (tables[i].rows.empty()) continue;
    std::istringstream lines(table_text(tables[i]).plain());
    for (std::string line; std::getline(lines, line);) Log(topics[i], 0).info("{}", line);
  }
}

void log_memory(const execute::Program& program, int rank) {
  const execute::State& state = program.state();
  std::vector<std::string> roles;
  for (const graph::Role role : kStateRoles) {
    if (state.bytes_of(role) > 0)
      roles.push_back(fmt::format("{} {}", graph::to_string(role), size_text(state.bytes_of(role))));
  }
  const Log log(LogTopic::memory, rank);
  log.info("state {} ({}), scratch arena {}", size_text(program.state_bytes()), join(roles),
           size_text(program.scratch_bytes()));
  if (program.device_bytes() > 0) log.info("{} on the device", size_text(program.device_bytes()));
}

}  // namespace

StyledText describe_run(const TrainingSetup& run, std::optional<std::size_t> width) {
  StyledText text = table_text(facts_table(run), width);
  for (const TextTable& table : tables_of(run)) {
    if (!table.rows.empty()) text.add("\n").add(table_text(table, width));
  }
  return text;
}

StyledText describe_run_briefly(const TrainingSetup& run, std::optional<std::size_t> width) {
  const RunConfig& config = run.config();
  std::vector<std::pair<std::string_view, std::string>> facts;
  const ops::LoraConfig& lora = config.model.lora;
  facts.emplace_back(
      "model", model_text(config) +
                   (lora.used() ? ", of which adapters train " + trained_parameters(config.model) : std::string()));
  facts.emplace_back("ranks", ranks_text(run) + (run.devices.devices.empty() ? "" : "; " + to_string(run.devices)));
  facts.emplace_back("data", run.inputs.source.description());
  facts.emplace_back("batch",
                     batch_text(config) + (config.epochs > 0 ? "; " + counted(config.steps, "step") : std::string()));
  if (const std::string note = note_of_gradient(config); !note.empty()) facts.emplace_back("attention", note);
  const std::size_t notes = notes_of(run).size();
  facts.emplace_back("plans",
                     fmt::format("made and checked in {:.0f} ms; {} a rank, {} sent a step{}", run.planning_ms,
                                 size_text(memory_in_all(run)), size_text(network_bytes(run.program->plan("train"))),
                                 notes == 0 ? "" : "; --verbose shows " + counted(notes, "note")));
  return table_text(table_of(facts), width);
}

std::string describe_run_json(const TrainingSetup& run) {
  const RunConfig& config = run.config();
  const execute::Program& program = *run.program;
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
  if (run.bf16) bf16_products = to_string(run.bf16->unit);
  if (run.tuned != nullptr) tuning = fmt::format("{:016x}", run.tuned->table.fingerprint());
  std::map<std::string, std::int64_t> memory = {{"scratch", program.scratch_bytes()}};
  for (const graph::Role role : kStateRoles) {
    memory[std::string(graph::to_string(role))] = program.state().bytes_of(role);
  }
  const plan::MemoryReport step = plan::memory_report(program.plan("train"));
  for (const graph::Role role : kScratchRoles) memory[std::string(graph::to_string(role))] = step.of(role);
  memory["checkpoint_snapshot"] = checkpoint_snapshot_bytes(run);
  memory["total"] = memory_in_all(run);
  return JsonObject()
      .add("active_parameters", config.model.active_parameters())
      .add("bf16_products", bf16_products)
      .add("communication", communication_json(*program.plan("train").graph))
      .add("communicator", run.devices.communicator)
      .add("device", run.devices.devices.empty() ? "cpu" : "cuda")
      .add("devices", to_json(run.devices))
      .add("dtype", to_string(config.dtype))
      .add("gemm_tuning", tuning)
      .add("grid", graph::to_string(config.grid))
      .add("held_out_tokens", run.inputs.source.held_out.size())
      .add("kernels", cpu::kernel_level())
      .add("lora", config.model.lora.used() ? JsonValue(ops::to_string(config.model.lora)) : JsonValue(nullptr))
      .add("memory_bytes", memory)
      .add("model", config.model.name)
      .add("packed_weights", packed_weights(*program.plan("train").graph).tensors)
      .add("parameters", config.model.parameters())
      .add("planning_ms", run.planning_ms)
      .add("plans", plans)
      .add("policy", config.policy)
      .add("ranks", config.grid.ranks())
      .add("rewrites", plan::to_string(config.rewrites))
      .add("rewrites_for_memory", plan::rewrites_for_memory(program.plan("train")))
      .add("summation_note", summation_note(config))
      .add("threads", config.threads)
      .add("train_tokens", run.inputs.source.train.size())
      .text();
}

void log_run(const TrainingSetup& run) {
  comm::World& world = run.world;
  const std::string hosts = hosts_text(world);
  if (world.rank() == 0) {
    log_libraries(run.config(), run.world.name() == "mpi");
    std::vector<std::string> keys;
    for (const ConfigKey& key : config_keys()) keys.push_back(fmt::format("{} = {}", key.name, key.get(run.config())));
    Log(LogTopic::run, 0).info("configuration: {}", join(keys));
    Log(LogTopic::run, 0).info("data: {}", run.inputs.source.description());
    const std::optional<std::uint64_t>& tokenizer = run.inputs.tokenizer_digest;
    Log(LogTopic::run, 0).info("tokenizer: {}", tokenizer ? "digest " + hex_fingerprint(*tokenizer) : "unknown");
    for (const std::string& note : notes_of(run)) Log(LogTopic::run, 0).info("note: {}", note);
    Log(LogTopic::comm, 0)
        .info("communicator {}, {} ranks ({}) as {}, on {}", run.devices.communicator, world.size(),
              graph::to_string(run.config().grid), kind_of_ranks(run.world, "threads"), hosts);
    if (!run.devices.devices.empty()) Log(LogTopic::comm, 0).info("devices: {}", to_string(run.devices));
    log_tuning(run);
    log_plans(run);
  }
  log_memory(*run.program, world.rank());
}

}  // namespace weft::train
