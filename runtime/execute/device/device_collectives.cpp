#include "runtime/execute/device/device_collectives.h"

#include <algorithm>
#include <stdexcept>

#include "runtime/comm/slices.h"

namespace weft::execute {
namespace {

// Member `rank` fetches `count` elements, at `offset` of every member's buffer, into its workspace and adds them in
// rank order.
void fetch_and_sum(Device& device, std::span<const GroupMember> members, std::size_t rank, std::int64_t offset,
                   std::int64_t count, void* out) {
  const GroupMember& own = members[rank];
  const std::int64_t bytes = own.call.bytes_of(count);
  std::vector<const void*> sources;
  auto* to = static_cast<std::byte*>(own.call.workspace);
  for (std::size_t peer = 0; peer < members.size(); ++peer) {
    const std::byte* const from = members[peer].call.source_at(offset);
    if (peer == rank) {
      sources.push_back(from);
      continue;
    }
    device.copy(own.stream, to, from, bytes);
    sources.push_back(to);
    to += bytes;
  }
  device.sum(own.stream, sources, out, count, own.call.dtype);
}

}  // namespace

DeviceGroup::DeviceGroup(Device& device, std::size_t size) {
  for (auto* events : {&ready_, &reduced_, &finished_}) {
    for (std::size_t i = 0; i < size; ++i) events->push_back(device.add_event(false));
  }
}

void DeviceGroup::meet(Device& device, std::span<const GroupMember> members, std::vector<DeviceEvent>& events) const {
  for (std::size_t i = 0; i < members.size(); ++i) device.record(events[i], members[i].stream);
  for (std::size_t i = 0; i < members.size(); ++i) {
    for (std::size_t peer = 0; peer < members.size(); ++peer) {
      if (peer != i) device.wait(members[i].stream, events[peer]);
    }
  }
}

void DeviceGroup::enqueue(Device& device, std::span<const GroupMember> members) {
  const comm::CollectiveCall& first = members.front().call;
  if (members.size() != ready_.size()) throw std::logic_error("a collective of other members than its group's");
  for (const GroupMember& member : members) {
    if (!member.call.matches(first)) throw std::logic_error("the members' collectives differ");
  }
  const auto size = static_cast<int>(members.size());
  meet(device, members, ready_);
  switch (first.kind) {
    case comm::CollectiveKind::all_reduce: {
      if (size == 1) break;
      for (std::size_t r = 0; r < members.size(); ++r) {
        const comm::Slice slice = comm::slice_of(first, size, static_cast<int>(r));
        if (slice.count > 0) {
          fetch_and_sum(device, members, r, slice.begin, slice.count, members[r].call.out_at(slice.begin));
        }
      }
      meet(device, members, reduced_);
      for (std::size_t r = 0; r < members.size(); ++r) {
        for (std::size_t peer = 0; peer < members.size(); ++peer) {
          const comm::Slice slice = comm::slice_of(first, size, static_cast<int>(peer));
          if (peer == r || slice.count == 0) continue;
          device.copy(members[r].stream, members[r].call.out_at(slice.begin), members[peer].call.out_at(slice.begin),
                      first.bytes_of(slice.count));
        }
      }
      break;
    }
    case comm::CollectiveKind::reduce_scatter:
      for (std::size_t r = 0; r < members.size(); ++r) {
        fetch_and_sum(device, members, r, static_cast<std::int64_t>(r) * first.count, first.count, members[r].call.out);
      }
      break;
    case comm::CollectiveKind::all_gather:
      for (std::size_t r = 0; r < members.size(); ++r) {
        for (std::size_t peer = 0; peer < members.size(); ++peer) {
          std::byte* const to = members[r].call.out_at(static_cast<std::int64_t>(peer) * first.count);
          if (to == members[peer].call.in) continue;  // it is already in place
          device.copy(members[r].stream, to, members[peer].call.in, first.bytes_of(first.count));
        }
      }
      break;
    case comm::CollectiveKind::broadcast:
      for (std::size_t r = 0; r < members.size(); ++r) {
        if (static_cast<std::int64_t>(r) == first.root) continue;
        device.copy(members[r].stream, members[r].call.out, members[static_cast<std::size_t>(first.root)].call.out,
                    first.bytes_of(first.count));
      }
      break;
  }
  meet(device, members, finished_);
}

}  // namespace weft::execute
