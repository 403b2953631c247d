#include "inspect/formats/trace_file.h"

#include <fmt/format.h>

#include <functional>
#include <span>
#include <system_error>

#include "base/error.h"
#include "base/files/byte_source.h"
#include "base/files/input_file.h"
#include "inspect/formats/perfetto_trace.h"

namespace weft::inspect {
namespace {

namespace fs = std::filesystem;

}  // namespace

void write_text_file(const fs::path& path, Named named, const std::function<void(const TextSink&)>& write) {
  DurableFile file(path, named);
  const TextSink to_file = [&](std::string_view text) { file.write(std::as_bytes(std::span(text))); };
  if (path.extension() == ".gz") {
    GzipPacker packer(to_file);
    write([&](std::string_view text) { packer.write(text); });
    packer.finish();
  } else {
    write(to_file);
  }
  file.commit();
}

void write_chrome_file(const fs::path& path, const plan::Recording& recording, const ChromeTraceOptions& options,
                       Named named) {
  write_text_file(path, named, [&](const TextSink& sink) { write_chrome_trace(recording, options, sink); });
}

void write_perfetto_file(const fs::path& path, const plan::Recording& recording, Named named) {
  write_text_file(path, named, [&](const TextSink& sink) { write_perfetto_trace(recording, sink); });
}

fs::path find_trace(const fs::path& trace_or_run) {
  std::error_code none;
  if (!fs::is_directory(trace_or_run, none)) return trace_or_run;
  for (const char* name : {"trace.json", "trace.json.gz"}) {
    if (fs::exists(trace_or_run / name, none)) return trace_or_run / name;
  }
  throw UserError(fmt::format("{} has no trace.json", in_quotes(trace_or_run)), "a trace, or the folder of a run",
                  "`weft train --trace-steps 3` leaves one; `weft simulate -o trace.json` too");
}

}  // namespace weft::inspect
