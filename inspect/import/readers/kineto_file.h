// Traces of PyTorch's profiler (Kineto), of one rank a file, packed with gzip or not. A file is read twice, event by
// event: once for its steps and groups, once for the events of one step. So memory grows with the step and not with the
// file.
#pragma once

#include <string>

#include "base/files/input_file.h"
#include "inspect/import/device_trace.h"
#include "inspect/import/step_timeline.h"

namespace weft::inspect {

/// `name` stands for the text in messages. Throws UserError.
TraceOutline parse_kineto_outline(ByteSource source, const std::string& name, const TellImport& tell = {});
/// The events of a step, or of the whole file, with work of the device that begins after the step's mark.
DeviceTrace parse_kineto_events(ByteSource source, const TraceOutline& outline, const std::optional<MarkedStep>& step,
                                const TellImport& tell = {});

}  // namespace weft::inspect
