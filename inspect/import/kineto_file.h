// Traces of PyTorch's profiler (Kineto), of one rank a file, packed with gzip or not. A file is read twice, event by
// event: once for its steps and groups, once for the events of one step. So memory grows with the step and not with the
// file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "base/files/byte_source.h"
#include "inspect/import/device_trace.h"
#include "inspect/import/trace_steps.h"

namespace weft::inspect {

/// Told now and then how many events have been read.
using TellEvents = std::function<void(std::int64_t)>;

/// `name` stands for the text in messages. Throws UserError.
TraceOutline parse_kineto_outline(ByteSource source, const std::string& name, const TellEvents& tell = {});
/// The events of a step, or of the whole file, with work of the device that begins after the step's mark.
DeviceTrace parse_kineto_events(ByteSource source, const TraceOutline& outline, const std::optional<MarkedStep>& step,
                                const TellEvents& tell = {});

}  // namespace weft::inspect
