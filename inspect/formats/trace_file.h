// Recordings written to files of the formats that viewers open.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

#include "base/files/durable_file.h"
#include "inspect/formats/chrome_trace.h"
#include "runtime/plan/recording.h"

namespace weft::inspect {

/// Writes durably what `write` hands to its sink, packed with gzip if the path ends in ".gz". Throws RuntimeFault (a
/// full disk).
void write_text_file(const std::filesystem::path& path, Named named, const std::function<void(const TextSink&)>& write);

/// Like write_text_file().
void write_chrome_file(const std::filesystem::path& path, const plan::Recording& recording,
                       const ChromeTraceOptions& options = {}, Named named = Named::by_weft);
void write_perfetto_file(const std::filesystem::path& path, const plan::Recording& recording,
                         Named named = Named::by_weft);

/// Where a trace of the user's words is: the file itself, or a run folder's trace.json or trace.json.gz. Throws
/// UserError if there is none.
std::filesystem::path find_trace(const std::filesystem::path& trace_or_run);

}  // namespace weft::inspect
