// Records that can't be true: twice the same one, work before its launch, times at 0, launches whose kernel is absent,
// kernels of one stream at the same time. Where the right value is clear it is set; a note tells of each kind how many
// there are and names the first.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "inspect/import/device_trace.h"

namespace weft::inspect {

/// How many records have a fault, and the first one's name.
struct RecordFault {
  std::int64_t count = 0;
  std::string first = {};

  void add(std::string_view name) {
    if (count++ == 0) first = name;
  }
  /// Adds "3 PROBLEM, first 'gemm'CONSEQUENCE" to notes, if there are any.
  void tell(std::vector<std::string>& notes, std::string_view problem, std::string_view consequence) const;
};

/// Changes `ops` and `calls`, which stay sorted, and adds to `notes`.
void mend_records(DeviceTrace& trace);

/// Devices with a good part of the kernels, by their numbers: each is a rank of its own. Copies between devices may
/// name another one.
std::vector<std::int32_t> devices_of_ranks(const std::map<std::int64_t, std::int64_t>& kernels);

/// Leaves nothing but the work of one device, and the calls of threads that launched some of it.
void keep_device(DeviceTrace& trace, std::int32_t device);

}  // namespace weft::inspect
