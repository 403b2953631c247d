// `weft memory`: what a rank needs and sends on several grids, side by side, without running any.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/printable.h"
#include "base/status_line.h"
#include "base/text/json_object.h"
#include "base/text/text_table.h"
#include "base/units.h"
#include "ops/communication.h"
#include "ops/sharding.h"
#include "runtime/execute/device/device_memory.h"
#include "runtime/plan/plan.h"
#include "runtime/policy/compile/compile_plan.h"
#include "tools/command_line/commands.h"
#include "tools/command_line/shared_options.h"
#include "tools/input/config_options.h"
#include "train/config/expert_loads.h"
#include "train/step/planning.h"
#include "train/step/step_config.h"

namespace weft::tools {
namespace {

struct MemoryOptions {
  train::RunConfig config;  // not yet resolved
  std::vector<std::string> grids;
  std::int64_t most = 20;
  bool json = false;
};

/// One grid: what a rank of it needs and sends, or why it can't be.
struct GridRow {
  graph::Grid grid;
  std::string refusal;
  plan::MemoryReport memory;
  std::int64_t attention = 0;             // estimated workspace on a GPU
  std::int64_t segments = 0;              // of exchanged rows, between GPUs
  std::map<graph::Channel, double> sent;  // bytes a step
  std::string summation_note = {};        // see train::summation_note()
  std::string summation_axes = {};        // that have such grids above 1: "y and z"
  std::string rewrites_for_memory = {};   // see plan::rewrites_for_memory()

  std::int64_t total() const { return memory.total() + attention + segments; }
  double sent_in_all() const {
    double sum = 0;
    for (const auto& [channel, bytes] : sent) sum += bytes;
    return sum;
  }
};

/// `run` isn't filled in yet.
GridRow examine(train::ResolvedRun run, const graph::Grid& grid) {
  GridRow row;
  row.grid = grid;
  train::RunConfig& config = run.config;
  config.grid = grid;
  config.ranks = grid.ranks();
  try {
    train::fill_in(config, 0);
  } catch (const UserError& error) {
    const std::string text = error.what();
    row.refusal = text.substr(0, std::min(text.find(';'), text.find('\n')));
    return row;
  }
  const simulate::Problem problem = train::planning_problem(run);
  const std::vector<plan::Plan> plans =
      policy::compile(problem.classes, *run.policy, train::policy_options(run), problem.rewrites);
  const auto attention = [&](const plan::Plan& each) {
    const bool on_gpu = config.device == train::DeviceKind::cuda;
    return on_gpu ? execute::attention_scratch_bytes(each, config.attention_workspace) : 0;
  };
  // Of several pipeline stages, the one that takes most.
  const plan::Plan& plan = *std::ranges::max_element(
      plans, {}, [&](const plan::Plan& each) { return plan::memory_report(each).total() + attention(each); });
  row.summation_note = train::summation_note(config);
  if (train::sums_norms_over_y(config)) row.summation_axes = "y";
  if (train::step_config(config).scatters_each_micro_batch()) {
    row.summation_axes += row.summation_axes.empty() ? "z" : " and z";
  }
  row.rewrites_for_memory = plan::rewrites_for_memory(plan);
  row.memory = plan::memory_report(plan);
  row.attention = attention(plan);
  if (train::sends_row_segments(config)) row.segments = execute::row_segments_bytes(plan);
  for (const ops::Communication& part : ops::communication_of(*plan.graph)) row.sent[part.channel] += part.bytes;
  return row;
}

/// Of the grids named, or else of all that have as many ranks.
std::vector<GridRow> examine_all(const MemoryOptions& options) {
  const train::ResolvedRun run = train::read_texts(options.config);
  train::check_device(run.config);  // which no grid changes
  train::expect_grid(run.config);
  std::vector<graph::Grid> grids;
  for (const std::string& text : options.grids) {
    train::RunConfig named = options.config;
    train::set_key(named, "grid", text, "--grids");
    train::expect_grid(named);
    grids.push_back(named.grid);
  }
  if (grids.empty()) {
    const std::int64_t of_grid = options.config.grid.ranks();
    const std::int64_t ranks = std::max(options.config.ranks, of_grid);
    if (ranks % of_grid != 0) {
      throw UserError(fmt::format("grid {} has {} ranks, and {} are asked for", graph::to_string(options.config.grid),
                                  of_grid, ranks),
                      fmt::format("a multiple of {}", of_grid), "leave out --grid or --ranks, or name --grids");
    }
    train::RunConfig config = options.config;
    config.grid = {};
    config.ranks = 0;
    train::fill_in(config, 0);  // for the model's sizes
    grids = ops::fitting_grids(config.model, ranks);
  }
  std::vector<GridRow> rows;
  StatusLine line(!options.json);
  for (const graph::Grid& grid : grids) {
    line.tell({fmt::format("[{}/{}] planning {}", rows.size() + 1, grids.size(), graph::to_string(grid)),
               std::ssize(rows), std::ssize(grids)});
    rows.push_back(examine(run, grid));
  }
  if (options.grids.empty()) {
    std::stable_sort(rows.begin(), rows.end(), [](const GridRow& a, const GridRow& b) {
      if (a.refusal.empty() != b.refusal.empty()) return a.refusal.empty();
      return a.total() < b.total();
    });
  }
  return rows;
}

JsonArray to_json(const std::vector<GridRow>& rows) {
  JsonArray json;
  for (const GridRow& row : rows) {
    JsonObject entry;
    entry.add("grid", graph::to_string(row.grid));
    if (!row.refusal.empty()) {
      json.add(entry.add("ranks", row.grid.ranks()).add("refused", row.refusal));
      continue;
    }
    std::map<std::string, std::int64_t> memory = {{"attention", row.attention},
                                                  {"row_segments", row.segments},
                                                  {"scratch", row.memory.arena},
                                                  {"total", row.total()}};
    for (std::size_t role = 0; role < graph::kRoles; ++role) {
      memory[std::string(graph::to_string(static_cast<graph::Role>(role)))] = row.memory.bytes[role];
    }
    std::map<std::string, double> sent;
    for (const auto& [channel, bytes] : row.sent) sent[std::string(graph::to_string(channel))] = bytes;
    json.add(entry.add("memory_bytes", memory)
                 .add("ranks", row.grid.ranks())
                 .add("rewrites_for_memory", row.rewrites_for_memory)
                 .add("sent_bytes", sent)
                 .add("summation_note", row.summation_note));
  }
  return json;
}

/// The channels of 3D tensor parallelism and data, and the ones of pipelines that a row uses.
std::vector<graph::Channel> told_channels(const std::vector<GridRow>& rows) {
  std::vector<graph::Channel> told;
  for (std::size_t i = 0; i < graph::kAxisChannels; ++i) {
    const auto channel = static_cast<graph::Channel>(i);
    const auto uses = [&](const GridRow& row) { return row.sent.contains(channel); };
    if (channel <= graph::Channel::world || std::ranges::any_of(rows, uses)) told.push_back(channel);
  }
  return told;
}

TextTable table(const std::vector<GridRow>& rows) {
  const auto bytes = [](double n) { return n == 0 ? std::string("-") : human_bytes(static_cast<std::uint64_t>(n)); };
  const auto role = [&](const GridRow& row, graph::Role which) {
    return bytes(static_cast<double>(row.memory.of(which)));
  };
  TextTable table{.columns = {{.head = "grid", .words = true},
                              {.head = "parameters", .rank = 2},
                              {.head = "gradients", .rank = 3},
                              {.head = "optimizer", .rank = 2},
                              {.head = "activations", .rank = 1},
                              {.head = "gathered", .rank = 3},
                              {.head = "workspace", .rank = 4}}};
  const bool attends = std::ranges::any_of(rows, [](const GridRow& row) { return row.attention > 0; });
  const bool exchanges = std::ranges::any_of(rows, [](const GridRow& row) { return row.segments > 0; });
  if (attends) table.columns.push_back({.head = "attention", .rank = 1});
  if (exchanges) table.columns.push_back({.head = "segments", .rank = 1});
  table.columns.insert(table.columns.end(), {{.head = "total"}, {.head = "sent"}});
  const std::vector<graph::Channel> channels = told_channels(rows);
  for (const graph::Channel channel : channels) {
    table.columns.push_back({.head = std::string(graph::to_string(channel)), .rank = 5});
  }
  for (const GridRow& row : rows) {
    if (!row.refusal.empty()) {
      table.rows.push_back({graph::to_string(row.grid), row.refusal});
      continue;
    }
    std::vector<std::string>& cells = table.rows.emplace_back();
    cells = {graph::to_string(row.grid),         role(row, graph::Role::parameter),
             role(row, graph::Role::gradient),   role(row, graph::Role::optimizer_state),
             role(row, graph::Role::activation), role(row, graph::Role::gathered),
             role(row, graph::Role::workspace)};
    if (attends) cells.push_back(bytes(static_cast<double>(row.attention)));
    if (exchanges) cells.push_back(bytes(static_cast<double>(row.segments)));
    cells.push_back(bytes(static_cast<double>(row.total())));
    cells.push_back(bytes(row.sent_in_all()));
    for (const graph::Channel channel : channels) {
      cells.push_back(bytes(row.sent.contains(channel) ? row.sent.at(channel) : 0));
    }
  }
  return table;
}

int compare(const MemoryOptions& options) {
  std::vector<GridRow> rows = examine_all(options);
  const std::size_t found = rows.size();
  if (options.most > 0 && found > static_cast<std::size_t>(options.most)) {
    rows.resize(static_cast<std::size_t>(options.most));
  }
  StyledText text(
      "Of one rank: memory by role, each at its own peak, and together as planned; bytes sent a step, by process "
      "group.\n\n");
  text.add(table_text(table(rows), output_width()));
  for (const GridRow& row : rows) {
    if (row.rewrites_for_memory.empty()) continue;
    text.add(fmt::format("{}: rewrites chosen to fit the memory: {}\n", graph::to_string(row.grid),
                         row.rewrites_for_memory));
  }
  std::map<std::string, std::string> notes;
  for (const GridRow& row : rows) {
    if (!row.summation_note.empty()) notes.emplace(row.summation_axes, row.summation_note);
  }
  for (const auto& [axes, note] : notes) {
    text.add(
        fmt::format("Of {}: {}.\n", axes.empty() ? "all grids" : fmt::format("grids with {} above 1", axes), note));
  }
  if (rows.size() < found)
    text.add(fmt::format("… and {} more, which need more memory: --most 0 shows all\n", found - rows.size()));
  return print_result(options.json, JsonObject().add("grids", to_json(rows)).add("grids_found", found), text);
}

}  // namespace

Command describe_memory() {
  Command command{"memory", "compare what a rank needs and sends on several grids"};
  const auto options = std::make_shared<MemoryOptions>();
  command.add(word_option("--grids", &options->grids, "GRID",
                          "grids to compare, each as for --grid; default: all of --ranks ranks"));
  command.add(number_option("--most", &options->most, "rows of the table; 0: all", 0));
  command.add({.names = "--json", .target = &options->json, .help = "print the rows as JSON"});
  const ConfigOptions config(command);
  command.examples = {{"weft memory --model gpt2-124m --ranks 8"},
                      {"weft memory --model llama-8b --global-batch 64 --grids x=2,y=2,z=4 z=16 x=8,data=2"},
                      {"weft memory run.toml --ranks 1024 --most 0 --json"}};
  command.run = [options, config] { return config.on_config(options->config, [&] { return compare(*options); }); };
  return command;
}

}  // namespace weft::tools
