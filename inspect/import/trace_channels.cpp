#include "inspect/import/trace_channels.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace weft::inspect {
namespace {

/// Descriptions that say nothing about what a group is for.
bool is_telling(const std::string& description) {
  return !description.empty() && description != "undefined" && description != "default_pg";
}

}  // namespace

std::int32_t TraceChannels::channel_of(const DeviceTrace& trace, const CollectiveNote& note,
                                       const std::string& stream) {
  std::string name, description = note.description;
  std::vector<std::int64_t> members = note.ranks;
  std::int64_t size = note.group_size;
  for (const ProcessGroup& group : trace.groups) {
    if (note.group.empty() || group.name != note.group) continue;
    if (description.empty()) description = group.description;
    if (members.empty()) members = group.ranks;
    if (size == 0) size = group.size;
  }
  const bool known = !note.group.empty() || !description.empty();
  if (is_telling(description)) {
    name = description;
  } else if (known) {
    name = note.group.empty() ? description : "group " + note.group;
  } else {
    name = fmt::format("{} (inferred)", stream);
  }
  if (size == 0) size = members.empty() ? std::max<std::int64_t>(1, ranks_) : static_cast<std::int64_t>(members.size());
  const auto [at, added] = by_name_.emplace(std::pair(name, size), static_cast<std::int32_t>(channels_.size()));
  if (added) {
    // Two groups of one name and different sizes are told apart by their sizes.
    const auto taken = [&](const std::string& text) {
      return std::ranges::any_of(channels_, [&](const graph::OpenChannel& channel) { return channel.name == text; });
    };
    if (taken(name)) name = fmt::format("{}, {} ranks", name, size);
    while (taken(name)) name += "'";
    channels_.push_back({name, size});
    inferred_ += known ? 0 : 1;
  }
  graph::OpenChannel& channel = channels_[static_cast<std::size_t>(at->second)];
  const bool fits = static_cast<std::int64_t>(members.size()) == size;
  if (fits && std::ranges::find(channel.groups, members) == channel.groups.end()) channel.groups.push_back(members);
  return at->second;
}

std::vector<graph::OpenChannel> TraceChannels::channels() && {
  for (graph::OpenChannel& channel : channels_) std::ranges::sort(channel.groups);
  return std::move(channels_);
}

double ring_bytes(std::string_view kind, double bytes, std::int64_t group_size) {
  if (group_size < 2) return 0;
  const double share = static_cast<double>(group_size - 1) / static_cast<double>(group_size);
  if (kind == "all_reduce") return 2 * share * bytes;
  if (kind == "all_gather" || kind == "reduce_scatter" || kind == "all_to_all") return share * bytes;
  return bytes;
}

}  // namespace weft::inspect
