// `weft trace import`: recorded steps of other programs as an open graph.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/durable_file.h"
#include "base/printable.h"
#include "base/status_line.h"
#include "base/text/json_object.h"
#include "base/text/text_table.h"
#include "base/units.h"
#include "inspect/formats/graph_file.h"
#include "inspect/import/trace_import.h"
#include "tools/command_line/commands.h"
#include "tools/command_line/shared_options.h"

namespace weft::tools {
namespace {

constexpr int kNoStep = -1;
constexpr double kMostMs = 1e9, kNanoseconds = 1e6;  // kMostMs: 11 days

struct ImportOptions {
  std::vector<std::string> files;
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
  inspect::StepChoice choice{.whole = options.whole};
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
  return print_result(options.json, json, text);
}

}  // namespace

Command describe_trace_import() {
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

}  // namespace weft::tools
