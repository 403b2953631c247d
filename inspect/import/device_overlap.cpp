#include "inspect/import/device_overlap.h"

#include <utility>
#include <vector>

#include "base/intervals.h"

namespace weft::inspect {

DeviceOverlap device_overlap(std::span<const DeviceOp> ops, const NameTable& names) {
  std::vector<DeviceClass> classes;
  for (std::uint32_t name = 0; name < names.size(); ++name) classes.push_back(device_class(names.text(name)));
  Intervals compute, communication;
  for (const DeviceOp& op : ops) {
    if (classes[op.name] == DeviceClass::compute) compute.push_back({op.begin, op.end});
    if (classes[op.name] == DeviceClass::communication) communication.push_back({op.begin, op.end});
  }
  compute = merged(std::move(compute));
  communication = merged(std::move(communication));
  return {total_length(compute), total_length(communication), total_length(intersection(compute, communication))};
}

}  // namespace weft::inspect
