// Recorded steps of one or many ranks as one open graph, with what is known about how well it explains the recording,
// as text and JSON, too; and what a format of traces gives to an import. A format is a file with a TraceReader, and a
// place in the list below.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/printable.h"
#include "base/text/json_object.h"
#include "graph/open_graph.h"
#include "inspect/import/recovered_step.h"
#include "inspect/import/step_replay.h"
#include "inspect/import/step_timeline.h"
#include "inspect/import/step_verdict.h"

namespace weft::inspect {

/// A rank that files hold.
struct RankTrace {
  TraceOutline outline;
  /// Reads and recovers the step, or all that was recorded, of the rank that the outline names by now.
  std::function<RecoveredStep(const TraceOutline&, const std::optional<MarkedStep>&, TraceChannels&)> recover;
};

struct TraceReader {
  std::string_view name;  // "kineto"
  /// Whether a file begins so.
  bool (*reads)(std::string_view head);
  std::vector<RankTrace> (*open)(const std::vector<std::filesystem::path>& files, const TellImport& tell);
  bool marks_steps = true;  // else a file is one step
};

extern const TraceReader kKinetoReader, kNsightReader, kChakraReader;
/// In the order in which they are asked whether a file is theirs; Chakra's has no mark of its own.
inline constexpr std::array kTraceReaders = {&kKinetoReader, &kNsightReader, &kChakraReader};

/// What is found about one rank's step.
struct ImportedRank {
  std::string file;
  std::int64_t rank = -1;
  std::optional<std::int64_t> step = {};  // its number, if it was marked
  std::int64_t events = 0;                // in the file
  std::int64_t device_tasks = 0, host_tasks = 0;
  std::optional<std::int64_t> marked_ns = {};  // the length of the profiler's own mark
  double recorded_ns = 0, replayed_ns = 0;
  ReplayedPath path = {};  // of the replayed step
  DeviceOverlap overlap = {};
  std::array<std::int64_t, kEdgeSources> edges = {};  // by graph::EdgeSource
  /// How far the replayed step is from the recorded one, in percent.
  double error_percent() const { return recorded_ns == 0 ? 0 : 100 * (replayed_ns - recorded_ns) / recorded_ns; }
};

struct ImportedTrace {
  graph::OpenGraph graph;
  std::vector<ImportedRank> ranks;
  StepVerdict verdict = {};
  std::int64_t matched = 0, unmatched = 0;  // collectives of several recorded ranks
  std::int64_t absent_ranks = 0;            // of the world, without a trace
};

/// The names of all formats: "kineto", …
std::vector<std::string> trace_formats();
/// By the first bytes of a file. Throws UserError if it can't be read.
std::string_view trace_format(const std::filesystem::path& file);

/// Reads traces of one format, a rank a file (of Nsight Systems: a rank a process). Throws UserError, with the file's
/// name, on what can't be read, on two files of one rank, and on a step that a file lacks.
ImportedTrace import_traces(const std::vector<std::filesystem::path>& files, std::string_view format,
                            const StepChoice& choice, const TellImport& tell = {});

/// From steps that have been recovered: joins their ranks, matches collectives, replays. `channels` is what
/// recover_step() filled. `world`: ranks of the run; 0: unknown.
ImportedTrace join_ranks(std::vector<RecoveredStep> steps, std::vector<ImportedRank> ranks, TraceChannels channels,
                         std::int64_t world, std::string source);

/// For a terminal of `width` columns.
StyledText styled_import(const ImportedTrace& imported, std::optional<std::size_t> width);
JsonObject import_json(const ImportedTrace& imported);

}  // namespace weft::inspect
