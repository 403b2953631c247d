// `weft trace`: what a trace says, two of them side by side, whether a run kept its plan, traces for other tools, and
// recorded steps of other programs as an open graph.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/durable_file.h"
#include "base/files/input_file.h"
#include "base/printable.h"
#include "base/status_line.h"
#include "base/text/json_object.h"
#include "base/text/text_table.h"
#include "base/units.h"
#include "inspect/formats/chrome_trace.h"
#include "inspect/formats/graph_file.h"
#include "inspect/formats/known_file.h"
#include "inspect/formats/perfetto_trace.h"
#include "inspect/formats/pytorch_trace.h"
#include "inspect/formats/recorded_file.h"
#include "inspect/import/trace_import.h"
#include "inspect/report/trace_check.h"
#include "inspect/report/trace_difference.h"
#include "inspect/report/trace_summary.h"
#include "tools/command_line/commands.h"
#include "tools/command_line/shared_options.h"
#include "tools/input/config_options.h"
#include "train/step/run_graphs.h"

namespace weft::tools {
namespace {

namespace fs = std::filesystem;

constexpr int kViolated = 3;
constexpr const char* kWhat = "a trace that Weft wrote, or the folder of a run";

struct TraceOptions {
  std::string trace, other, output, format;
  std::vector<train::Setting> overrides;  // of the run's configuration: its policy
  std::size_t most = 10;
  bool all_steps = false, sync_records = false, execution_traces = false, json = false;
};

std::size_t limit(std::size_t most) {
  return most == 0 ? std::numeric_limits<std::size_t>::max() : most;
}

plan::Recording load(const std::string& trace_or_run) {
  const fs::path file = inspect::find_trace(trace_or_run);
  inspect::expect_weft_trace(file);
  return inspect::read_recording(file);
}

int summarize(const TraceOptions& options) {
  const plan::Recording recording = load(options.trace);
  const inspect::TraceSummary summary = inspect::summarize_trace(recording, options.all_steps, limit(options.most));
  return print_result(options.json, inspect::summary_json(recording, summary),
                      inspect::styled_summary(recording, summary, output_width()));
}

int compare(const TraceOptions& options) {
  const inspect::TraceDifference difference = inspect::compare_recordings(load(options.trace), load(options.other));
  return print_result(options.json, inspect::difference_json(difference),
                      inspect::styled_difference(difference, limit(options.most), output_width()));
}

/// What a run folder's configuration compiles to today, against what ran: "" if nothing is known of it.
struct PlanComparison {
  std::string text;
  bool differs = false;
};

PlanComparison compare_plans(const fs::path& run, const std::vector<train::Setting>& overrides,
                             const plan::Recording& recording) {
  std::error_code none;
  const fs::path file = run / "config.toml";
  if (!fs::is_directory(run, none) || !fs::exists(file, none)) return {};
  try {
    train::RunConfig config;
    train::load_toml(config, file.string());
    train::apply_command_line(config, overrides);
    const std::uint64_t compiled = train::compiled_fingerprint(std::move(config));
    if (compiled == recording.plan_fingerprint) return {"the run's configuration compiles to the same plan", false};
    return {fmt::format("the run's configuration compiles to another plan ({:#018x}) than the one that ran ({:#018x})",
                        compiled, recording.plan_fingerprint),
            true};
  } catch (const UserError& error) {
    return {fmt::format("the run's configuration doesn't compile here: {}", error.what()), false};
  }
}

int check(const TraceOptions& options) {
  const plan::Recording recording = load(options.trace);
  const inspect::TraceCheck result = inspect::check_recording(recording, limit(options.most));
  const PlanComparison plans = compare_plans(options.trace, options.overrides, recording);
  const bool holds = result.holds() && !plans.differs;
  if (options.json) {
    say("{}\n", JsonObject()
                    .add("holds", holds)
                    .add("edges", result.edges)
                    .add("tasks", result.tasks)
                    .add("collectives", result.collectives)
                    .add("violations", result.violations)
                    .add("messages", result.messages)
                    .add("plan", plans.text)
                    .text());
    return holds ? 0 : kViolated;
  }
  for (const std::string& message : result.messages) say("{}\n", message);
  if (result.violations > result.messages.size()) {
    say("… and {} more\n", result.violations - result.messages.size());
  }
  say("{}: {} edges, {} tasks and {} collectives compared, {} violations\n",
      result.holds() ? "the trace keeps its plan" : "THE TRACE VIOLATES ITS PLAN", result.edges, result.tasks,
      result.collectives, result.violations);
  if (!plans.text.empty()) say("{}\n", plans.text);
  return holds ? 0 : kViolated;
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder, error) && (!fs::is_directory(folder, error) || !fs::is_empty(folder, error))) {
    throw UserError(in_quotes(folder) + " exists and is no empty folder",
                    "a new folder: HolisticTraceAnalysis reads all that lies in it", "-o with another name");
  }
  fs::create_directories(folder, error);
  if (error) {
    throw UserError(fmt::format("can't make the folder {}: {}", in_quotes(folder), error.message()),
                    "a folder that can be written", "-o with another path");
  }
}

/// One file a rank. Returns their names.
std::vector<std::string> export_ranks(const TraceOptions& options, const plan::Recording& recording) {
  const fs::path folder = options.output;
  make_folder(folder);
  std::vector<std::string> files;
  plan::Recording one = recording;
  for (std::size_t i = 0; i < recording.ranks.size(); ++i) {
    const fs::path file = folder / fmt::format("rank_{}.json", recording.ranks[i].rank);
    if (options.format == "pytorch") {
      write_text_file(file, Named::by_weft, [&](const TextSink& sink) {
        inspect::write_pytorch_trace(
            recording, i, {.sync_records = options.sync_records, .operators = options.execution_traces}, sink);
      });
    } else {
      one.ranks = {recording.ranks[i]};
      inspect::write_chrome_file(file, one, {.kineto_names = true, .origin = inspect::first_begin(recording)});
    }
    files.push_back(file.string());
    if (!options.execution_traces) continue;
    const fs::path beside = folder / fmt::format("execution_{}.json", recording.ranks[i].rank);
    write_text_file(beside, Named::by_weft,
                    [&](const TextSink& sink) { inspect::write_execution_trace(recording, i, sink); });
    files.push_back(beside.string());
  }
  return files;
}

int export_trace(const TraceOptions& options) {
  const bool folder = options.format == "kineto" || options.format == "pytorch";
  for (const auto& [given, flag] :
       {std::pair(options.sync_records, "--sync-records"), std::pair(options.execution_traces, "--execution-traces")}) {
    if (!given || options.format == "pytorch") continue;
    throw UserError(fmt::format("{} is for --format pytorch", flag), "", fmt::format("leave {} out", flag));
  }
  if (!folder) expect_writable(options.output);
  const plan::Recording recording = load(options.trace);
  std::vector<std::string> files = {options.output};
  if (folder) {
    files = export_ranks(options, recording);
  } else if (options.format == "perfetto") {
    write_text_file(options.output, Named::by_person,
                    [&](const TextSink& sink) { inspect::write_perfetto_trace(recording, sink); });
  } else {
    inspect::write_chrome_file(options.output, recording, {}, Named::by_person);
  }
  return print_result(options.json,
                      JsonObject()
                          .add("format", options.format)
                          .add("files", files)
                          .add("policy", recording.policy)
                          .add("ranks", recording.ranks.size())
                          .add("tasks", recording.tasks.size()),
                      join(files, "\n") + "\n");
}

CommandOption trace_argument(TraceOptions& options) {
  return required(path_option("trace", &options.trace, "", kWhat));
}

CommandOption most_option(TraceOptions& options, const char* what) {
  return {.names = "--most", .target = &options.most, .value = "N", .help = what, .least = 0};
}

CommandOption json_option(TraceOptions& options) {
  return {.names = "--json", .target = &options.json, .help = "print it as JSON"};
}

Command summary_command(const std::shared_ptr<TraceOptions>& options) {
  Command command{"summary", "where the time of a step went, on each rank"};
  command.add(trace_argument(*options));
  command.add(
      {.names = "--all-steps", .target = &options->all_steps, .help = "every traced step, not only the last one"});
  command.add(most_option(*options, "stalls named for each rank and step; 0: all"));
  command.add(json_option(*options));
  command.description =
      "For each rank: how long it computed, communicated, communicated while nothing was computed, and did neither; "
      "the same by kind of task and by channel; and the longest stalls of its compute streams, each with its cause.";
  command.examples = {{"weft trace summary runs/mine"},
                      {"weft trace summary runs/mine --all-steps --most 3"},
                      {"weft trace summary step.json.gz --json"}};
  command.run = [options] { return summarize(*options); };
  return command;
}

Command diff_command(const std::shared_ptr<TraceOptions>& options) {
  Command command{"diff", "what became slower from one trace to another"};
  command.add(trace_argument(*options));
  command.add(required(path_option("other", &options->other, "", "the other one")));
  command.add(most_option(*options, "tasks named; 0: all"));
  command.add(json_option(*options));
  command.description =
      "Medians over all traced ranks and steps: of the step as a whole, of each kind of task, and of tasks of one "
      "name.";
  command.examples = {{"weft trace diff runs/serial runs/mine"}, {"weft trace diff before.json after.json --most 0"}};
  command.run = [options] { return compare(*options); };
  return command;
}

Command check_command(const std::shared_ptr<TraceOptions>& options) {
  Command command{"check", "did the run keep its plan? Exit code 3 if it didn't"};
  command.add(trace_argument(*options));
  command.add(most_option(*options, "violations named; 0: all"));
  command.add(policy_option(options->overrides));
  command.add(json_option(*options));
  command.description =
      "Compares the measured times with the plan: every dependency, the order of each stream, and the order of "
      "collectives on all ranks. For a run folder, the run's configuration is compiled again too, and the plans are "
      "compared.";
  command.examples = {{"weft trace check runs/mine"}, {"weft trace check runs/mine --policy ./mine.so --json"}};
  command.run = [options] { return check(*options); };
  return command;
}

Command export_command(const std::shared_ptr<TraceOptions>& options) {
  Command command{"export", "write the trace for other tools"};
  command.add(trace_argument(*options));
  command.add(required(
      choice_option("--format", &options->format, "FORMAT",
                    "chrome: one JSON file for Perfetto's and Chrome's viewers; kineto: one a rank for "
                    "HolisticTraceAnalysis; pytorch: one a rank with nothing but what PyTorch's profiler writes; "
                    "perfetto: one small binary file for ui.perfetto.dev",
                    {"chrome", "kineto", "pytorch", "perfetto"})));
  command.add(required(path_option("-o,--output", &options->output, "FILE|FOLDER",
                                   "the file to write, packed if it ends in .gz; a folder for kineto and pytorch")));
  command.add({.names = "--sync-records",
               .target = &options->sync_records,
               .help = "pytorch: with the records of waits that PyTorch writes if CUDA sync events are on"});
  command.add({.names = "--execution-traces",
               .target = &options->execution_traces,
               .help = "pytorch: with operators, and an execution trace of each rank, which tells their data"});
  command.add(json_option(*options));
  command.examples = {{"weft trace export runs/mine --format kineto -o for-hta"},
                      {"weft trace export runs/mine --format perfetto -o mine.pftrace"},
                      {"weft trace export runs/mine --format chrome -o mine.json.gz"}};
  command.run = [options] { return export_trace(*options); };
  return command;
}

constexpr int kNoStep = -1;
constexpr double kMostMs = 1e9, kNanoseconds = 1e6;  // kMostMs: 11 days

struct ImportOptions {
  std::vector<std::string> files, execution_traces;
  std::vector<inspect::CommunicationRule> communication;
  std::string output, format = "auto";
  std::int64_t step = kNoStep;
  double from_ms = 0, to_ms = kMostMs;  // of a range
  bool whole = false, json = false;

  bool has_range() const { return from_ms > 0 || to_ms < kMostMs; }
};

std::string_view format_of(const ImportOptions& options) {
  if (options.format != "auto") return options.format;
  const std::string_view first = inspect::trace_format(options.files.front());
  for (const std::string& file : options.files) {
    const std::string_view format = inspect::trace_format(file);
    if (format == first) continue;
    throw UserError(fmt::format("'{}' is a trace of {}, '{}' one of {}", options.files.front(), first, file, format),
                    "files of one program", "import them one after the other");
  }
  return first;
}

std::string next_command(const ImportOptions& options) {
  if (!options.output.empty()) return fmt::format("\nnext: weft explain {}\n", options.output);
  std::string files = options.files.front();
  if (options.files.size() > 1) files += options.files.size() == 2 ? " " + options.files.back() : " …";
  return fmt::format("\nnext: weft trace import {} -o step.graph.json, then weft explain step.graph.json\n", files);
}

int import_files(const ImportOptions& options) {
  if (options.whole && options.step != kNoStep) {
    throw UserError("--whole and --step exclude each other", "one of them", "leave one out");
  }
  if (options.has_range() && (options.whole || options.step != kNoStep)) {
    throw UserError("--from-ms and --to-ms exclude --whole and --step", "a range, a step or all", "leave one out");
  }
  if (options.from_ms >= options.to_ms) {
    throw UserError(fmt::format("--from-ms {} and --to-ms {}", options.from_ms, options.to_ms), "a later end",
                    "--to-ms with a greater number");
  }
  if (!options.output.empty() && !inspect::is_graph_file(options.output)) {
    throw UserError(fmt::format("-o '{}'", options.output), "a name that ends in .graph.json or .graph.json.gz",
                    "-o step.graph.json");
  }
  if (!options.output.empty()) expect_writable(options.output);
  inspect::StepChoice choice{.whole = options.whole, .communication = options.communication};
  choice.execution_traces = options.execution_traces;
  if (options.step != kNoStep) choice.number = options.step;
  if (options.has_range()) {
    choice.range = {static_cast<std::int64_t>(options.from_ms * kNanoseconds),
                    static_cast<std::int64_t>(options.to_ms * kNanoseconds)};
  }
  inspect::ImportedTrace imported;
  {
    StatusLine line;
    imported = inspect::import_traces(
        {options.files.begin(), options.files.end()}, format_of(options), choice,
        [&](const std::string& file, std::int64_t events) {
          line.show({fmt::format("{}: {} events", std::filesystem::path(file).filename().string(),
                                 human_count(static_cast<double>(events)))});
        });
  }
  graph::check(imported.graph);
  if (!options.output.empty()) inspect::write_graph_file(options.output, imported.graph, Named::by_person);
  JsonObject json = inspect::import_json(imported);
  json.add("file", options.output.empty() ? JsonValue(nullptr) : JsonValue(options.output));
  StyledText text = inspect::styled_import(imported, output_width());
  if (!options.output.empty()) text.add("\n" + options.output + "\n");
  text.add(next_command(options));
  return print_result(options.json, json, text);
}

Command import_command() {
  const auto options = std::make_shared<ImportOptions>();
  std::vector<std::string> formats = inspect::trace_formats();
  formats.insert(formats.begin(), "auto");
  Command command{"import", "read another program's traces as an open graph"};
  command.add(required(path_option("files", &options->files, "FILE", "traces, one a rank, packed with gzip or not")));
  command.add(output_option(options->output, "FILE", "the graph to write: NAME.graph.json, or .graph.json.gz"));
  command.add(
      choice_option("--format", &options->format, "FORMAT",
                    "who made the files: kineto is PyTorch's profiler, chakra MLCommons' execution traces; auto looks "
                    "into them",
                    std::move(formats)));
  CommandOption step = number_option("--step", &options->step, "the step marked ProfilerStep#N", 0);
  step.default_text = "the last one that another step follows";
  command.add(std::move(step));
  command.add({.names = "--from-ms",
               .target = &options->from_ms,
               .value = "MS",
               .help =
                   "what was launched from this time on, as one step; counted from the file's first mark or work of "
                   "a device, of Nsight Systems from the session's begin",
               .least = 0,
               .most = kMostMs});
  command.add({.names = "--to-ms",
               .target = &options->to_ms,
               .value = "MS",
               .help = "what was launched before this time, counted likewise",
               .default_text = "the file's end",
               .least = 0,
               .most = kMostMs});
  CommandOption execution_traces =
      path_option("--execution-trace", &options->execution_traces, "FILE",
                  "PyTorch's execution traces (ExecutionTraceObserver), one for each trace, in their order: they tell "
                  "which work needs which data, so that policies may move the rest");
  command.add(std::move(execution_traces));
  command.add({.names = "--communication",
               .target =
                   [options](const std::string& rule) {
                     options->communication.push_back(inspect::parse_communication_rule(rule));
                   },
               .value = "PATTERN[=KIND]",
               .help = "kernels that communicate though their names don't tell: a part of the name, or all of it with "
                       "'*' and '?'; KIND is all_to_all, say; may be repeated",
               .arity = Arity::each});
  command.add({.names = "--whole", .target = &options->whole, .help = "all that the files hold, as one step"});
  command.add({.names = "--json", .target = &options->json, .help = "print the report as JSON"});
  command.description =
      "Recovers the tasks of one step and who waited for whom: from records of waits, the order of each stream, "
      "launches, the order of calls on CPU threads, and times, each with its confidence. Then the step is replayed "
      "from durations and edges alone, and compared with the recorded one. A rank without a trace is stood in for by "
      "the others, and the report says so. Without -o only the report is printed.";
  command.examples = {{"weft trace import rank0.json.gz -o step.graph.json"},
                      {"weft trace import trace/rank*.json --step 12 -o step.graph.json.gz"},
                      {"weft trace import rank0.json --from-ms 120 --to-ms 180 -o part.graph.json"},
                      {"weft trace import chakra.0.et chakra.1.et --json"},
                      {"weft trace import profile.sqlite --step 12 -o step.graph.json"}};
  command.run = [options] { return import_files(*options); };
  return command;
}

}  // namespace

Command describe_trace() {
  Command command{"trace", "read traces: summary, diff, check, export, import"};
  const auto options = std::make_shared<TraceOptions>();
  command.subcommands = {summary_command(options), diff_command(options), check_command(options),
                         export_command(options), import_command()};
  command.examples = {{"weft trace summary runs/mine"},
                      {"weft trace diff runs/serial runs/mine"},
                      {"weft trace check runs/mine"},
                      {"weft trace export runs/mine --format kineto -o for-hta"},
                      {"weft trace import rank0.json.gz -o step.graph.json"}};
  return command;
}

}  // namespace weft::tools
