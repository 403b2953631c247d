// Traces: an accepted trace is written as a trace that reads back equal, and gives summaries, checks and pictures.
#include "inspect/formats/chrome_trace.h"
#include "inspect/formats/perfetto_trace.h"
#include "inspect/formats/recorded_file.h"
#include "inspect/report/trace_check.h"
#include "inspect/report/trace_summary.h"
#include "tests/fuzz/fuzz_target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  plan::Recording recording;
  if (!fuzz::accepted([&] { recording = inspect::parse_recording(fuzz::text_of(data, size), "trace.json"); })) return 0;
  const std::string written = inspect::chrome_trace_json(recording);
  fuzz::require(inspect::parse_recording(written, "written.json") == recording,
                "a trace that differs when it is read back");
  fuzz::require(!inspect::styled_summary(recording, inspect::summarize_trace(recording, true, 10), {}).plain().empty(),
                "a summary of nothing");
  inspect::check_recording(recording);
  std::size_t bytes = 0;
  inspect::write_perfetto_trace(recording, [&](std::string_view piece) { bytes += piece.size(); });
  fuzz::require(bytes > 0, "a binary trace of nothing");
  return 0;
}
