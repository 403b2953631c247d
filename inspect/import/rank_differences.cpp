#include "inspect/import/rank_differences.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/units.h"
#include "graph/open_meetings.h"

namespace weft::inspect {
namespace {

constexpr std::size_t kMostDifferences = 8;  // sentences

/// The collectives of one rank in a group, by their number: a profiler's own, or their place.
struct GroupCalls {
  std::int64_t rank = -1;
  std::vector<std::pair<std::int64_t, const graph::OpenTask*>> calls;
};

/// The number of all inputs and outputs is equal on all ranks.
bool has_equal_sizes(std::string_view operation) {
  return operation == "all_reduce" || operation == "all_gather" || operation == "reduce_scatter" ||
         operation == "broadcast";
}

bool sizes_differ(const graph::OpenTask& a, const graph::OpenTask& b) {
  if (!has_equal_sizes(a.operation) || a.network_bytes == 0 || b.network_bytes == 0) return false;
  return std::abs(a.network_bytes - b.network_bytes) >= 1;
}

std::string shown_call(const graph::OpenTask& task) {
  if (task.network_bytes == 0) return fmt::format("'{}'", task.name);
  return fmt::format("'{}' with {} sent", task.name, human_bytes(static_cast<std::uint64_t>(task.network_bytes)));
}

bool all_numbered(const std::vector<GroupCalls>& members) {
  return std::ranges::all_of(members, [](const GroupCalls& member) {
    std::set<std::int64_t> numbers;
    return std::ranges::all_of(member.calls, [&](const auto& call) {
      return call.second->sequence >= 0 && numbers.insert(call.second->sequence).second;
    });
  });
}

/// About the first call in which two ranks differ, if there is one; and how many more there are.
std::optional<std::string> difference_of(const GroupCalls& first, const GroupCalls& other, const std::string& group) {
  std::optional<std::string> told;
  std::size_t more = 0;
  const auto tell = [&](std::string sentence) {
    if (told) ++more;
    if (!told) told = std::move(sentence);
  };
  std::map<std::int64_t, const graph::OpenTask*> wanted(other.calls.begin(), other.calls.end());
  for (const auto& [number, task] : first.calls) {
    const auto found = wanted.find(number);
    if (found == wanted.end()) {
      tell(fmt::format("Call {} of group '{}', {} on rank {}, is absent on rank {}", number, group, shown_call(*task),
                       first.rank, other.rank));
      continue;
    }
    if (task->operation != found->second->operation || sizes_differ(*task, *found->second)) {
      tell(fmt::format("Call {} of group '{}' is {} on rank {}, but {} on rank {}", number, group, shown_call(*task),
                       first.rank, shown_call(*found->second), other.rank));
    }
    wanted.erase(found);
  }
  for (const auto& [number, task] : wanted) {
    tell(fmt::format("Call {} of group '{}', {} on rank {}, is absent on rank {}", number, group, shown_call(*task),
                     other.rank, first.rank));
  }
  if (!told) return told;
  return *told + (more > 0 ? fmt::format("; {} more calls differ.", more) : ".");
}

}  // namespace

std::vector<std::string> rank_differences(const graph::OpenGraph& graph) {
  std::map<std::pair<std::int32_t, std::int64_t>, std::vector<GroupCalls>> groups;  // by channel and its group
  for (const graph::OpenClass& step : graph.classes) {
    if (step.ranks.size() != 1) continue;
    std::map<std::pair<std::int32_t, std::int64_t>, GroupCalls> own;
    for (const graph::OpenTask& task : step.tasks) {
      // Ranks of a pipeline send and receive differently.
      if (task.kind != graph::OpenKind::collective || task.channel < 0 || task.operation == "send_receive") continue;
      const graph::OpenChannel& channel = graph.channels[static_cast<std::size_t>(task.channel)];
      GroupCalls& calls = own[{task.channel, graph::group_of(channel, step)}];
      calls.rank = step.ranks.front();
      calls.calls.emplace_back(std::ssize(calls.calls), &task);
    }
    for (auto& [key, calls] : own) groups[key].push_back(std::move(calls));
  }
  std::vector<std::string> out;
  for (auto& [key, members] : groups) {
    const graph::OpenChannel& channel = graph.channels[static_cast<std::size_t>(key.first)];
    // Members that nobody names may be of several groups.
    if (members.size() < 2 || (key.second < 0 && std::ssize(members) > channel.group_size)) continue;
    if (all_numbered(members)) {
      for (GroupCalls& member : members) {
        for (auto& [number, task] : member.calls) number = task->sequence;
      }
    }
    for (std::size_t i = 1; i < members.size() && out.size() < kMostDifferences; ++i) {
      if (auto told = difference_of(members.front(), members[i], channel.name)) out.push_back(std::move(*told));
    }
  }
  return out;
}

}  // namespace weft::inspect
