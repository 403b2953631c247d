#include "inspect/import/collective_match.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace weft::inspect {
namespace {

/// A group of ranks within a channel: the channel's number, and the group's; -1 if nobody says who is in it.
using GroupKey = std::pair<std::int32_t, std::int64_t>;

std::int64_t group_of(const graph::OpenChannel& channel, const graph::OpenClass& step) {
  for (std::size_t i = 0; i < channel.groups.size(); ++i) {
    const std::vector<std::int64_t>& group = channel.groups[i];
    if (!step.ranks.empty() && std::ranges::binary_search(group, step.ranks.front()))
      return static_cast<std::int64_t>(i);
  }
  return -1;
}

/// The collectives of a class in one group, in order.
struct GroupTasks {
  std::uint32_t of_class;
  std::vector<std::uint32_t> tasks;
};

bool all_numbered(const graph::OpenGraph& graph, const std::vector<GroupTasks>& members) {
  for (const GroupTasks& member : members) {
    std::set<std::int64_t> numbers;
    for (const std::uint32_t task : member.tasks) {
      const std::int64_t number = graph.classes[member.of_class].tasks[task].sequence;
      if (number < 0 || !numbers.insert(number).second) return false;
    }
  }
  return true;
}

void match_group(const graph::OpenGraph& graph, const std::vector<GroupTasks>& members, MatchedCollectives& out) {
  const bool numbered = all_numbered(graph, members);
  std::map<std::int64_t, std::vector<graph::ClassTask>> by_number;
  for (const GroupTasks& member : members) {
    for (std::size_t i = 0; i < member.tasks.size(); ++i) {
      const graph::OpenTask& task = graph.classes[member.of_class].tasks[member.tasks[i]];
      by_number[numbered ? task.sequence : static_cast<std::int64_t>(i)].push_back({member.of_class, member.tasks[i]});
    }
  }
  for (auto& [number, tasks] : by_number) {
    const auto& first = graph.classes[tasks[0].of_class].tasks[tasks[0].task];
    const bool same = std::ranges::all_of(tasks, [&](const graph::ClassTask& one) {
      return graph.classes[one.of_class].tasks[one.task].operation == first.operation;
    });
    if (same && tasks.size() > 1) {
      out.meetings.push_back(std::move(tasks));
    } else {
      out.unmatched += static_cast<std::int64_t>(tasks.size());
    }
  }
}

/// The rank that a send or receive meets: a member of the task's group by its own number, else by its place in it.
std::int64_t peer_of(const graph::OpenGraph& graph, const graph::OpenClass& step, const graph::OpenTask& task) {
  if (task.channel < 0) return task.peer;
  const graph::OpenChannel& channel = graph.channels[static_cast<std::size_t>(task.channel)];
  const std::int64_t group = group_of(channel, step);
  if (group < 0) return task.peer;
  const std::vector<std::int64_t>& members = channel.groups[static_cast<std::size_t>(group)];
  if (std::ranges::binary_search(members, task.peer)) return task.peer;
  return task.peer < std::ssize(members) ? members[static_cast<std::size_t>(task.peer)] : task.peer;
}

/// The messages from one rank to another on one channel, in order.
struct Transfers {
  std::vector<graph::ClassTask> sends, receives;
};

/// The k-th send from a rank to another meets the k-th receive there from it.
void match_transfers(const graph::OpenGraph& graph, MatchedCollectives& out) {
  std::set<std::int64_t> recorded;
  for (const graph::OpenClass& step : graph.classes) recorded.insert(step.ranks.begin(), step.ranks.end());
  std::map<std::tuple<std::int32_t, std::int64_t, std::int64_t>, Transfers> pairs;  // channel, from, to
  for (std::uint32_t c = 0; c < graph.classes.size(); ++c) {
    const graph::OpenClass& step = graph.classes[c];
    for (std::uint32_t i = 0; i < step.tasks.size() && !step.ranks.empty(); ++i) {
      const graph::OpenTask& task = step.tasks[i];
      const bool sends = task.kind == graph::OpenKind::send;
      if ((!sends && task.kind != graph::OpenKind::receive) || task.peer < 0) continue;
      const std::int64_t own = step.ranks.front(), peer = peer_of(graph, step, task);
      if (!recorded.contains(peer)) continue;
      Transfers& pair = sends ? pairs[{task.channel, own, peer}] : pairs[{task.channel, peer, own}];
      (sends ? pair.sends : pair.receives).push_back({c, i});
    }
  }
  for (const auto& [key, pair] : pairs) {
    const std::size_t both = std::min(pair.sends.size(), pair.receives.size());
    for (std::size_t i = 0; i < both; ++i) out.meetings.push_back({pair.sends[i], pair.receives[i]});
    out.transfers += static_cast<std::int64_t>(both);
    out.unmatched += static_cast<std::int64_t>(pair.sends.size() + pair.receives.size() - 2 * both);
  }
}

}  // namespace

MatchedCollectives match_collectives(const graph::OpenGraph& graph) {
  std::map<GroupKey, std::vector<GroupTasks>> groups, exchanges;
  for (std::uint32_t c = 0; c < graph.classes.size(); ++c) {
    std::map<GroupKey, GroupTasks> own, own_exchanges;
    std::vector<std::int64_t> group(graph.channels.size());
    for (std::size_t i = 0; i < group.size(); ++i) group[i] = group_of(graph.channels[i], graph.classes[c]);
    const std::vector<graph::OpenTask>& tasks = graph.classes[c].tasks;
    for (std::uint32_t i = 0; i < tasks.size(); ++i) {
      if (tasks[i].kind != graph::OpenKind::collective) continue;
      const GroupKey key{tasks[i].channel, group[static_cast<std::size_t>(tasks[i].channel)]};
      GroupTasks& of = tasks[i].operation == "send_receive" ? own_exchanges[key] : own[key];
      of.of_class = c;
      of.tasks.push_back(i);
    }
    for (auto& [key, of] : own) groups[key].push_back(std::move(of));
    for (auto& [key, of] : own_exchanges) exchanges[key].push_back(std::move(of));
  }
  MatchedCollectives out;
  for (const auto& [key, members] : groups) {
    if (members.size() > 1) match_group(graph, members, out);
  }
  for (const auto& entry : exchanges) {
    const std::vector<GroupTasks>& members = entry.second;
    const bool equal = std::ranges::all_of(
        members, [&](const GroupTasks& of) { return of.tasks.size() == members.front().tasks.size(); });
    if (members.size() > 1 && equal) match_group(graph, members, out);
  }
  match_transfers(graph, out);
  return out;
}

void set_net_times(graph::OpenGraph& graph, const MatchedCollectives& matched) {
  for (const std::vector<graph::ClassTask>& meeting : matched.meetings) {
    std::optional<double> least;
    for (const graph::ClassTask& one : meeting) {
      const std::optional<double>& ns = graph.classes[one.of_class].tasks[one.task].ns;
      if (ns && (!least || *ns < *least)) least = ns;
    }
    for (const graph::ClassTask& one : meeting) graph.classes[one.of_class].tasks[one.task].ns = least;
  }
}

std::vector<double> clock_offsets(const graph::OpenGraph& graph, const MatchedCollectives& matched) {
  std::vector<std::vector<double>> differences(graph.classes.size());
  for (const std::vector<graph::ClassTask>& meeting : matched.meetings) {
    if (meeting[0].of_class != 0) continue;
    const std::optional<double>& first = graph.classes[0].tasks[meeting[0].task].end_ns;
    for (const graph::ClassTask& one : meeting) {
      const std::optional<double>& end = graph.classes[one.of_class].tasks[one.task].end_ns;
      if (first && end) differences[one.of_class].push_back(*end - *first);
    }
  }
  std::vector<double> out;
  for (std::vector<double>& some : differences) {
    if (some.empty()) {
      out.push_back(0);
      continue;
    }
    const auto middle = some.begin() + static_cast<std::ptrdiff_t>(some.size() / 2);
    std::ranges::nth_element(some, middle);
    out.push_back(*middle);
  }
  return out;
}

}  // namespace weft::inspect
