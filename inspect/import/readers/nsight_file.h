// Traces of Nsight Systems, exported by `nsys export --type sqlite`: a database that holds one process of a rank or
// many.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "inspect/import/device_trace.h"
#include "inspect/import/readers/kineto_file.h"
#include "inspect/import/step_timeline.h"

namespace weft::inspect {

/// One outline for each process that used a device, in the order of their devices; ranks are left unknown. Steps are
/// NVTX ranges named ProfilerStep#N, or "step N" and "iteration N" in any case. Throws UserError if the file can't be
/// read or lacks a table.
std::vector<TraceOutline> read_nsight_outlines(const std::filesystem::path& path);

/// The events of a step of a process, `process` counting from 0 as in the outlines, or all of them.
DeviceTrace read_nsight_events(const std::filesystem::path& path, std::size_t process, const TraceOutline& outline,
                               const std::optional<MarkedStep>& step);

}  // namespace weft::inspect
