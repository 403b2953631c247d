// A recording as Chrome trace JSON, Kineto's flavour: what Perfetto, chrome://tracing and HolisticTraceAnalysis open,
// and what Weft itself reads back (inspect/formats/recorded_file.h; docs/formats.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/files/durable_file.h"
#include "base/files/input_file.h"
#include "base/text/text_writer.h"
#include "runtime/plan/recording.h"

namespace weft::inspect {

/// Of the part "weft".
inline constexpr int kTraceVersion = 1;

/// Names that begin with it are communication for HolisticTraceAnalysis and PyTorch's tools.
inline constexpr std::string_view kKinetoCollective = "ncclKernel:";

struct ChromeTraceOptions {
  bool kineto_names = false;
  std::optional<std::int64_t> origin = {};  // the file's time 0; else the begin of the first step
};

/// The begin of the earliest step of any rank; 0 without steps.
std::int64_t first_begin(const plan::Recording& recording);

/// The object form (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU), one event a task
/// and line, of ranks whose clocks agree: pid = rank + 1, one tid a stream, and a row "steps"; an arrow
/// for each wait between streams, and counters of memory and of bytes in flight. The part "weft" holds
/// all that the events don't say. Times are microseconds since the origin, written from whole nanoseconds. Since slices
/// of a row must not cross, a task begins no earlier than its predecessor on the stream ends (`args.waited_ns` is the
/// time cut off), and lasts 1 ns at least (`args.grown_ns` is the time added). Collectives name the size and the ranks
/// of their group as PyTorch's profiler does, if the grid is known. Throws std::logic_error if a time lies before its
/// step's begin or the origin, or if steps don't rise.
void write_chrome_trace(const plan::Recording& recording, const ChromeTraceOptions& options, const TextSink& sink);
/// Like write_text_file().
void write_chrome_file(const std::filesystem::path& path, const plan::Recording& recording,
                       const ChromeTraceOptions& options = {}, Named named = Named::by_weft);
std::string chrome_trace_json(const plan::Recording& recording, const ChromeTraceOptions& options = {});

/// Where a trace of the user's words is: the file itself, or a run folder's trace.json or trace.json.gz. Throws
/// UserError if there is none.
std::filesystem::path find_trace(const std::filesystem::path& trace_or_run);

}  // namespace weft::inspect
