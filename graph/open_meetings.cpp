#include "graph/open_meetings.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace weft::graph {

std::int64_t group_of(const OpenChannel& channel, const OpenClass& step, std::size_t place) {
  const auto found = std::ranges::find_if(channel.groups, [&](const std::vector<std::int64_t>& group) {
    return !step.ranks.empty() && std::ranges::binary_search(group, step.ranks[place]);
  });
  return found == channel.groups.end() ? -1 : found - channel.groups.begin();
}

namespace {

/// Groups of ranks within a channel: the channel's number, and the first class with ranks in them; -1 if nobody says
/// who is in the class's group.
using GroupKey = std::pair<std::int32_t, std::int64_t>;

/// By class: the first class with which it shares a group of the channel, directly or over others; -1 without a group.
std::vector<std::int64_t> classes_by_group(const OpenGraph& graph, const OpenChannel& channel) {
  std::map<std::int64_t, std::size_t> class_of;
  for (std::size_t c = 0; c < graph.classes.size(); ++c) {
    for (const std::int64_t rank : graph.classes[c].ranks) class_of.emplace(rank, c);
  }
  std::vector<std::int64_t> first(graph.classes.size(), -1);
  for (const std::vector<std::int64_t>& group : channel.groups) {
    std::set<std::size_t> members;
    for (const std::int64_t rank : group) {
      if (const auto found = class_of.find(rank); found != class_of.end()) members.insert(found->second);
    }
    if (members.empty()) continue;
    auto least = static_cast<std::int64_t>(*members.begin());
    std::set<std::int64_t> joined;
    for (const std::size_t member : members) {
      if (first[member] < 0) first[member] = least;
      joined.insert(first[member]);
    }
    least = std::min(least, *joined.begin());
    std::ranges::replace_if(
        first, [&](std::int64_t each) { return joined.contains(each); }, least);
  }
  return first;
}

/// The collectives of a class in its groups of a channel, in order.
struct GroupTasks {
  std::uint32_t of_class;
  std::vector<std::uint32_t> tasks;
};

bool all_numbered(const OpenGraph& graph, const std::vector<GroupTasks>& members) {
  for (const GroupTasks& member : members) {
    std::set<std::int64_t> numbers;
    for (const std::uint32_t task : member.tasks) {
      const std::int64_t number = graph.classes[member.of_class].tasks[task].sequence;
      if (number < 0 || !numbers.insert(number).second) return false;
    }
  }
  return true;
}

void match_group(const OpenGraph& graph, const std::vector<GroupTasks>& members, OpenMeetings& out) {
  const bool numbered = all_numbered(graph, members);
  std::map<std::int64_t, std::vector<ClassTask>> by_number;
  for (const GroupTasks& member : members) {
    for (std::size_t i = 0; i < member.tasks.size(); ++i) {
      const OpenTask& task = graph.classes[member.of_class].tasks[member.tasks[i]];
      by_number[numbered ? task.sequence : static_cast<std::int64_t>(i)].push_back({member.of_class, member.tasks[i]});
    }
  }
  for (auto& [number, tasks] : by_number) {
    const OpenTask& first = graph.classes[tasks[0].of_class].tasks[tasks[0].task];
    const bool same = std::ranges::all_of(tasks, [&](const ClassTask& one) {
      return graph.classes[one.of_class].tasks[one.task].operation == first.operation;
    });
    if (same && tasks.size() > 1) {
      out.all.push_back(std::move(tasks));
    } else {
      out.unmatched += static_cast<std::int64_t>(tasks.size());
    }
  }
}

void match_collectives(const OpenGraph& graph, OpenMeetings& out) {
  std::vector<std::vector<std::int64_t>> group;  // by channel and class
  for (const OpenChannel& channel : graph.channels) group.push_back(classes_by_group(graph, channel));
  std::map<GroupKey, std::vector<GroupTasks>> groups, exchanges;
  for (std::uint32_t c = 0; c < graph.classes.size(); ++c) {
    const OpenClass& step = graph.classes[c];
    std::map<GroupKey, GroupTasks> own, own_exchanges;
    for (std::uint32_t i = 0; i < step.tasks.size(); ++i) {
      const OpenTask& task = step.tasks[i];
      if (task.kind != OpenKind::collective || step.ranks.empty()) continue;
      const auto channel = static_cast<std::size_t>(task.channel);
      // Of several ranks that nobody groups, as many as a group has are one.
      const bool within = group[channel][c] < 0 && step.ranks.size() > 1 &&
                          std::ssize(step.ranks) >= graph.channels[channel].group_size;
      if (within) continue;
      GroupTasks& of = (task.operation == "send_receive" ? own_exchanges : own)[{task.channel, group[channel][c]}];
      of.of_class = c;
      of.tasks.push_back(i);
    }
    for (auto& [key, of] : own) groups[key].push_back(std::move(of));
    for (auto& [key, of] : own_exchanges) exchanges[key].push_back(std::move(of));
  }
  for (const auto& [key, members] : groups) {
    if (members.size() > 1) match_group(graph, members, out);
  }
  for (const auto& entry : exchanges) {
    const std::vector<GroupTasks>& members = entry.second;
    const bool equal = std::ranges::all_of(
        members, [&](const GroupTasks& of) { return of.tasks.size() == members.front().tasks.size(); });
    if (members.size() > 1 && equal) match_group(graph, members, out);
  }
}

/// The rank that a send or receive meets: a member of the task's group by its own number, else by its place in it.
std::int64_t peer_of(const OpenGraph& graph, const OpenClass& step, const OpenTask& task) {
  if (task.channel < 0) return task.peer;
  const OpenChannel& channel = graph.channels[static_cast<std::size_t>(task.channel)];
  const std::int64_t group = group_of(channel, step);
  if (group < 0) return task.peer;
  const std::vector<std::int64_t>& members = channel.groups[static_cast<std::size_t>(group)];
  if (std::ranges::binary_search(members, task.peer)) return task.peer;
  return task.peer < std::ssize(members) ? members[static_cast<std::size_t>(task.peer)] : task.peer;
}

/// The messages from one rank to another on one channel, in order.
struct Transfers {
  std::vector<ClassTask> sends, receives;
};

/// Joins the k-th send with the k-th receive.
void join(const Transfers& pair, OpenMeetings& out) {
  const std::size_t both = std::min(pair.sends.size(), pair.receives.size());
  for (std::size_t i = 0; i < both; ++i) out.all.push_back({pair.sends[i], pair.receives[i]});
  out.transfers += static_cast<std::int64_t>(both);
  out.unmatched += static_cast<std::int64_t>(pair.sends.size() + pair.receives.size() - 2 * both);
}

void match_transfers(const OpenGraph& graph, OpenMeetings& out) {
  std::set<std::int64_t> recorded;
  for (const OpenClass& step : graph.classes) recorded.insert(step.ranks.begin(), step.ranks.end());
  std::map<std::int64_t, Transfers> by_message;
  std::map<std::tuple<std::int32_t, std::int64_t, std::int64_t>, Transfers> pairs;  // channel, from, to
  for (std::uint32_t c = 0; c < graph.classes.size(); ++c) {
    const OpenClass& step = graph.classes[c];
    for (std::uint32_t i = 0; i < step.tasks.size(); ++i) {
      const OpenTask& task = step.tasks[i];
      const bool sends = task.kind == OpenKind::send;
      if (!sends && task.kind != OpenKind::receive) continue;
      Transfers* pair = nullptr;
      if (task.message >= 0) {
        pair = &by_message[task.message];
      } else if (task.peer >= 0 && !step.ranks.empty()) {
        const std::int64_t own = step.ranks.front(), peer = peer_of(graph, step, task);
        if (!recorded.contains(peer)) continue;
        pair = sends ? &pairs[{task.channel, own, peer}] : &pairs[{task.channel, peer, own}];
      }
      if (pair != nullptr) (sends ? pair->sends : pair->receives).push_back({c, i});
    }
  }
  for (const auto& [message, pair] : by_message) {
    const bool between = pair.sends.size() == 1 && pair.receives.size() == 1 &&
                         pair.sends.front().of_class != pair.receives.front().of_class;
    if (between) join(pair, out);
  }
  for (const auto& [ranks, pair] : pairs) join(pair, out);
}

/// Which tasks can begin, one after the other, without a look at times.
class Walk {
 public:
  Walk(const OpenGraph& graph, const OpenMeetings& meetings) : meetings_(meetings) {
    first_.push_back(0);
    for (const OpenClass& step : graph.classes)
      first_.push_back(first_.back() + static_cast<std::uint32_t>(step.tasks.size()));
    const std::size_t count = first_.back();
    waits_.resize(count);
    later_.resize(count);
    for (std::size_t c = 0; c < graph.classes.size(); ++c) {
      for (const OpenEdge& edge : graph.classes[c].edges) {
        later_[first_[c] + edge.from].push_back(first_[c] + edge.to);
        ++waits_[first_[c] + edge.to];
      }
    }
    meeting_.assign(count, kAlone);
    for (std::uint32_t i = 0; i < meetings.all.size(); ++i) {
      missing_.push_back(meetings.all[i].size());
      for (const ClassTask& one : meetings.all[i]) meeting_[number(one)] = i;
    }
    for (std::uint32_t task = 0; task < count; ++task) {
      if (waits_[task] == 0) open_.push_back(task);
    }
    advance();
  }

  /// Whether a meeting took place. If not, its members go on by themselves.
  bool took_place(std::uint32_t meeting) {
    if (missing_[meeting] == 0) return true;
    missing_[meeting] = 0;
    for (const ClassTask& one : meetings_.all[meeting]) {
      meeting_[number(one)] = kAlone;
      if (waits_[number(one)] == 0) open_.push_back(number(one));
    }
    advance();
    return false;
  }

 private:
  static constexpr std::uint32_t kAlone = UINT32_MAX;

  std::uint32_t number(const ClassTask& task) const { return first_[task.of_class] + task.task; }

  void advance() {
    while (!open_.empty()) {
      const std::uint32_t task = open_.back();
      open_.pop_back();
      const std::uint32_t meeting = meeting_[task];
      if (meeting == kAlone) {
        start(task);
      } else if (--missing_[meeting] == 0) {
        for (const ClassTask& one : meetings_.all[meeting]) start(number(one));
      }
    }
  }

  void start(std::uint32_t task) {
    for (const std::uint32_t next : later_[task]) {
      if (--waits_[next] == 0) open_.push_back(next);
    }
  }

  const OpenMeetings& meetings_;
  std::vector<std::uint32_t> first_;  // number of each class's first task
  std::vector<std::uint32_t> waits_, meeting_, open_;
  std::vector<std::vector<std::uint32_t>> later_;  // by task: the targets of its edges
  std::vector<std::size_t> missing_;               // by meeting: members that aren't there
};

}  // namespace

OpenMeetings find_meetings(const OpenGraph& graph) {
  OpenMeetings out;
  match_collectives(graph, out);
  match_transfers(graph, out);
  return out;
}

void drop_impossible(const OpenGraph& graph, OpenMeetings& meetings) {
  std::vector<std::vector<ClassTask>> possible;
  Walk walk(graph, meetings);
  std::vector<bool> kept;
  for (std::uint32_t i = 0; i < meetings.all.size(); ++i) kept.push_back(walk.took_place(i));
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (kept[i]) possible.push_back(std::move(meetings.all[i]));
  }
  meetings.all = std::move(possible);
}

}  // namespace weft::graph
