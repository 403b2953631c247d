// What a format of traces gives to an import. A format is a file with a TraceReader, and a place in the list below.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "inspect/import/recovered_step.h"
#include "inspect/import/trace_steps.h"

namespace weft::inspect {

/// Told now and then what is done: the file, and how many of its events have been read.
using TellImport = std::function<void(const std::string& file, std::int64_t events)>;

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

}  // namespace weft::inspect
