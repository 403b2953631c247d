// A recording as Chrome trace JSON, Kineto's flavour: what Perfetto, chrome://tracing and HolisticTraceAnalysis open,
// and what Weft itself reads back (inspect/formats/recorded_file.h; docs/formats.md).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/plan/recording.h"

namespace weft::inspect {

/// Takes a text piece by piece: of a million events it is hundreds of megabytes long.
using TextSink = std::function<void(std::string_view)>;

/// Of the part "weft".
inline constexpr int kTraceVersion = 1;

/// Names that begin with it are communication for HolisticTraceAnalysis and PyTorch's tools.
inline constexpr std::string_view kKinetoCollective = "ncclKernel:";

struct ChromeTraceOptions {
  bool arrows = true;    // one for each wait between streams
  bool counters = true;  // memory, and bytes in flight
  bool kineto_names = false;
  std::optional<std::int64_t> origin = {};  // the file's time 0; else the begin of the first step
};

/// The begin of the earliest step of any rank; 0 without steps.
std::int64_t first_begin(const plan::Recording& recording);

/// The object form (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU), one event a task
/// and line, of ranks whose clocks agree: pid = rank + 1, one tid a stream, and a row "steps". The part "weft" holds
/// all that the events don't say. Times are microseconds since the origin, written from whole nanoseconds. Since slices
/// of a row must not cross, a task begins no earlier than its predecessor on the stream ends (`args.waited_ns` is the
/// time cut off), and lasts 1 ns at least (`args.grown_ns` is the time added). Collectives name the size and the ranks
/// of their group as PyTorch's profiler does, if the grid is known. Throws std::logic_error if a time lies before its
/// step's begin or the origin, or if steps don't rise.
void write_chrome_trace(const plan::Recording& recording, const ChromeTraceOptions& options, const TextSink& sink);
std::string chrome_trace_json(const plan::Recording& recording, const ChromeTraceOptions& options = {});

}  // namespace weft::inspect
