#include "runtime/execute/device/device_collectives.h"

#include <stdexcept>

namespace weft::execute {
namespace {

// Member `rank` fetches a slice of every member's numbers into its workspace and adds them in rank order.
void fetch_and_sum(Device& device, std::span<const GroupMember> members, std::size_t rank, const comm::Slice& slice,
                   void* out) {
  if (slice.count == 0) return;
  const GroupMember& own = members[rank];
  const std::int64_t bytes = own.call.bytes_of(slice.count);
  std::vector<const void*> sources;
  auto* to = static_cast<std::byte*>(own.call.workspace);
  for (std::size_t peer = 0; peer < members.size(); ++peer) {
    sources.push_back(members[peer].call.source_at(slice.begin));
    if (peer == rank) continue;
    device.copy(own.stream, to, sources.back(), bytes);
    sources.back() = to;
    to += bytes;
  }
  device.sum(own.stream, sources, out, slice.count, own.call.dtype);
}

// All parts for `rank` of an all_to_all.
void take_parts(Device& device, std::span<const GroupMember> members, int rank) {
  const GroupMember& member = members[static_cast<std::size_t>(rank)];
  const comm::CollectiveCall& call = member.call;
  const auto size = static_cast<int>(members.size());
  for (int peer = 0; peer < size; ++peer) {
    const comm::CollectiveCall& other = members[static_cast<std::size_t>(peer)].call;
    for (std::int64_t part = 0; part < call.parts; ++part) {
      device.copy(member.stream, call.out_at(comm::part_from(call, size, peer, part)),
                  other.in_at(comm::part_for(call, size, rank, part)), call.bytes_of(call.count));
    }
  }
}

// All rows for `rank` of an exchange, from where the givers have them.
void take_rows(Device& device, std::span<const GroupMember> members, int rank) {
  const GroupMember& member = members[static_cast<std::size_t>(rank)];
  std::vector<void*> given;
  for (const GroupMember& giver : members) given.push_back(const_cast<void*>(giver.call.in));  // only read
  device.move_rows(member.stream, rows_taken(member.call, static_cast<int>(members.size()), rank), given);
}

kernels::RowMove rows_of(const comm::CollectiveCall& call, int ranks, int rank) {
  kernels::RowMove move;
  move.table = call.table.offsets;
  move.ranks = ranks, move.experts = call.table.experts;
  move.rows = call.table.rows, move.most = call.table.most;
  move.row_bytes = call.bytes_of(call.count);
  move.rank = rank;
  return move;
}

}  // namespace

kernels::RowMove rows_taken(const comm::CollectiveCall& call, int ranks, int rank) {
  kernels::RowMove move = rows_of(call, ranks, rank);
  move.holds = !call.inverse;
  move.collects = true;
  move.own = call.out;
  return move;
}

kernels::RowMove rows_given(const comm::CollectiveCall& call, int ranks, int rank) {
  kernels::RowMove move = rows_of(call, ranks, rank);
  move.holds = call.inverse;
  move.own = const_cast<void*>(call.in);  // only read
  return move;
}

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
  const bool sums = first.sums() && !(first.in_place() && size == 1);
  for (int r = 0; sums && r < size; ++r) {
    const comm::CollectiveCall& call = members[static_cast<std::size_t>(r)].call;
    const comm::Slice slice = comm::slice_of(first, size, r);
    fetch_and_sum(device, members, static_cast<std::size_t>(r), slice,
                  first.in_place() ? call.out_at(slice.begin) : call.out);
  }
  if (sums && first.in_place()) meet(device, members, reduced_);
  const bool broadcasts = first.kind == comm::CollectiveKind::broadcast;
  const bool of_rows = first.kind == comm::CollectiveKind::exchange_rows;
  const bool exchanges = of_rows || first.kind == comm::CollectiveKind::all_to_all;
  for (int r = 0; exchanges && r < size; ++r) (of_rows ? take_rows : take_parts)(device, members, r);
  for (const GroupMember& member : members) {
    for (int peer = 0; peer < size && !exchanges && first.kind != comm::CollectiveKind::reduce_scatter; ++peer) {
      if (broadcasts && peer != first.root) continue;
      const comm::CollectiveCall& other = members[static_cast<std::size_t>(peer)].call;
      const comm::Slice slice = broadcasts ? comm::Slice{0, first.count} : comm::slice_of(first, size, peer);
      const void* const from = first.in_place() ? other.out_at(slice.begin) : other.in;
      std::byte* const to = member.call.out_at(slice.begin);
      if (to != from) device.copy(member.stream, to, from, first.bytes_of(slice.count));  // else it is already in place
    }
  }
  meet(device, members, finished_);
}

}  // namespace weft::execute
