// Collectives between ranks that share one device: copies by its copy engines, rows by a kernel, and sums in rank
// order, so that the bits are those of the CPU's communicators.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/execute/device/device.h"

namespace weft::execute {

/// One member of a group: the stream of its collectives.
struct GroupMember {
  DeviceStream stream;
  comm::CollectiveCall call;  // addresses are the device's
};

/// What a rank takes by an exchange_rows, from what the others give; and what it gives. The call's addresses are the
/// device's.
kernels::RowMove rows_taken(const comm::CollectiveCall& call, int ranks, int rank);
kernels::RowMove rows_given(const comm::CollectiveCall& call, int ranks, int rank);

/// The events that order the members of one process group; used again for each of its collectives.
///
///   DeviceGroup group(device, 2);
///   group.enqueue(device, members);   // on every member's stream; returns at once
class DeviceGroup {
 public:
  DeviceGroup(Device& device, std::size_t size);

  /// Enqueues one collective on the streams of all members, in rank order. Every member's calls must agree in kind,
  /// type, count and root (std::logic_error). A stream passes it once the member's buffers may be used again.
  void enqueue(Device& device, std::span<const GroupMember> members);

 private:
  // Every member's stream continues after all members' streams have reached this point.
  void meet(Device& device, std::span<const GroupMember> members, std::vector<DeviceEvent>& events) const;

  std::vector<DeviceEvent> ready_, reduced_, finished_;  // by member
};

}  // namespace weft::execute
