// How much of a device's communication runs beside computation, as Holistic Trace Analysis defines it.
#pragma once

#include <cstdint>
#include <span>

#include "inspect/import/device_trace.h"

namespace weft::inspect {

/// Nanoseconds of merged intervals, over all streams of a rank.
struct DeviceOverlap {
  std::int64_t computing = 0, communicating = 0, both = 0;
  std::int64_t exposed() const { return communicating - both; }
  /// |communication ∩ computation| / |communication|, in percent; 0 without communication.
  double percent() const {
    return communicating == 0 ? 0 : 100 * static_cast<double>(both) / static_cast<double>(communicating);
  }
};

DeviceOverlap device_overlap(std::span<const DeviceOp> ops, const NameTable& names);

}  // namespace weft::inspect
