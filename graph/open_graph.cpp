#include "graph/open_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_set>

#include "base/error.h"

namespace weft::graph {

std::string_view to_string(OpenKind kind) {
  static constexpr auto kNames =
      std::to_array<std::string_view>({"compute", "collective", "send", "receive", "copy", "host"});
  static_assert(kNames.size() == static_cast<std::size_t>(OpenKind::host) + 1);
  return kNames.at(static_cast<std::size_t>(kind));
}

std::string_view to_string(EdgeSource source) {
  static constexpr auto kNames = std::to_array<std::string_view>(
      {"given", "data", "synchronisation", "stream", "operator", "launch", "pairing", "times"});
  static_assert(kNames.size() == static_cast<std::size_t>(EdgeSource::times) + 1);
  return kNames.at(static_cast<std::size_t>(source));
}

namespace {

[[noreturn]] void refuse_open(const std::string& found, std::string_view expected, std::string_view fix) {
  throw UserError(found, expected, fix);
}

/// Refuses an empty name, and one that came before.
class OpenNames {
 public:
  OpenNames(std::string_view what, std::string_view place) : what_(what), place_(place) {}

  void add(const std::string& name) {
    if (name.empty()) refuse_open(fmt::format("{}a {} has no name", place_, what_), "a name", "name it");
    if (!names_.insert(name).second) {
      refuse_open(fmt::format("{}two {}s are named '{}'", place_, what_, name), fmt::format("one {} a name", what_),
                  "rename one of the two");
    }
  }

 private:
  std::string_view what_, place_;
  std::unordered_set<std::string> names_;
};

class ClassCheck {
 public:
  ClassCheck(const OpenGraph& graph, const OpenClass& one, const std::string& file)
      : graph_(graph), class_(one), place_(one.name.empty() ? file : fmt::format("{}class '{}': ", file, one.name)) {}

  void run() {
    if (class_.tasks.empty()) refuse_open(place_ + "it has no tasks", "one task at least", "add its tasks");
    expect_number(class_.recorded_ns, place_ + "recorded_ns");
    check_ranks();
    check_streams();
    OpenNames tensors("tensor", place_);
    for (const OpenTensor& tensor : class_.tensors) {
      tensors.add(tensor.name);
      if (tensor.role && is_state(*tensor.role) != tensor.outlives_step) {
        refuse_open(fmt::format("{}tensor '{}' has the role {}, and outlives_step is {}", place_, tensor.name,
                                to_string(*tensor.role), tensor.outlives_step),
                    "a role that fits", "correct one of the two");
      }
      if (tensor.bytes < 0) refuse_number(fmt::format("{}tensor '{}': bytes", place_, tensor.name), tensor.bytes);
    }
    written_.assign(class_.tensors.size(), false);
    OpenNames tasks("task", place_);
    for (const OpenTask& task : class_.tasks) {
      tasks.add(task.name);
      check_task(task);
    }
    for (const OpenEdge& edge : class_.edges) check_edge(edge);
  }

 private:
  template <class Number>
  [[noreturn]] static void refuse_number(const std::string& what, Number found) {
    refuse_open(fmt::format("{} is {}", what, found), "a number that is not negative", "correct the number");
  }
  static void expect_number(double value, const std::string& what) {
    if (!std::isfinite(value) || value < 0) refuse_number(what, value);
  }

  // `none`: -1 may stand in place of an index.
  template <class Index>
  static void expect_index(Index found, std::size_t count, bool none, const std::string& subject,
                           std::string_view what) {
    const auto index = static_cast<std::int64_t>(found);
    if (none && index == -1) return;
    if (index >= 0 && index < static_cast<std::int64_t>(count)) return;
    refuse_open(fmt::format("{}: {} {} doesn't exist", subject, what, index),
                count == 0 ? fmt::format("no {}, since the graph lists none", what)
                           : fmt::format("{} from 0 to {}", what, count - 1),
                fmt::format("list the {}, or correct its number", what));
  }

  void check_ranks() const {
    for (std::size_t i = 0; i < class_.ranks.size(); ++i) {
      const std::int64_t rank = class_.ranks[i];
      if (rank < 0 || rank >= graph_.world) {
        refuse_open(fmt::format("{}rank {} doesn't exist", place_, rank),
                    fmt::format("ranks from 0 to {}, as world is {}", graph_.world - 1, graph_.world),
                    "correct the rank or world");
      }
      if (i > 0 && rank <= class_.ranks[i - 1]) {
        refuse_open(fmt::format("{}rank {} stands after rank {}", place_, rank, class_.ranks[i - 1]), "ranks that rise",
                    "sort them, each once");
      }
    }
  }

  void check_streams() const {
    OpenNames names("stream", place_);
    for (const OpenStream& stream : class_.streams) {
      names.add(stream.name);
      const std::string subject = fmt::format("{}stream '{}'", place_, stream.name);
      expect_index(stream.channel, graph_.channels.size(), true, subject, "channel");
      if (stream.host && stream.channel >= 0) {
        refuse_open(subject + " is of a CPU thread and of a channel", "one of the two", "drop host or channel");
      }
    }
  }

  void check_task(const OpenTask& task) {
    const std::string subject = fmt::format("{}task '{}'", place_, task.name);
    expect_index(task.stream, class_.streams.size(), true, subject, "stream");
    expect_index(task.channel, graph_.channels.size(), true, subject, "channel");
    if (task.kind == OpenKind::collective && task.channel < 0) {
      refuse_open(subject + " is a collective without a channel", "the process group that it joins",
                  "list the group in channels, and give its number in \"channel\"");
    }
    if (!communicates(task.kind) && task.channel >= 0) {
      refuse_open(fmt::format("{} has a channel, and its kind is {}", subject, to_string(task.kind)),
                  "channels of collectives, sends and receives alone", "drop the channel or change the kind");
    }
    for (const auto& time : {task.ns, task.begin_ns, task.end_ns, task.beside_ns, task.link_ns, task.cpu_ns}) {
      if (time) expect_number(*time, subject + ": a time");
    }
    if (task.begin_ns.has_value() != task.end_ns.has_value() || (task.begin_ns && *task.end_ns < *task.begin_ns)) {
      refuse_open(subject + " has no end_ns after its begin_ns", "both, the end not before the begin, or neither",
                  "correct the times");
    }
    expect_number(task.flops, subject + ": flops");
    expect_number(task.bytes, subject + ": bytes");
    expect_number(task.network_bytes, subject + ": network_bytes");
    for (const OpenAccess& access : task.accesses) check_access(access, subject);
    for (const OpenAccess& access : task.accesses) {
      if (access.mode != AccessMode::read) written_[access.tensor] = true;
    }
  }

  void check_access(const OpenAccess& access, const std::string& subject) const {
    expect_index(access.tensor, class_.tensors.size(), false, subject, "tensor");
    const OpenTensor& tensor = class_.tensors[access.tensor];
    const bool known = access.mode == AccessMode::write || tensor.outlives_step || written_[access.tensor];
    if (known || !class_.edges_from_accesses) return;
    refuse_open(fmt::format("{} reads tensor '{}', which no earlier task writes", subject, tensor.name),
                "a tensor that a task wrote, or one that outlives the step",
                R"(set "outlives_step": true for the tensor, or let a task write it)");
  }

  void check_edge(const OpenEdge& edge) const {
    const std::string subject = fmt::format("{}edge from {} to {}", place_, edge.from, edge.to);
    expect_index(edge.from, class_.tasks.size(), false, subject, "task");
    expect_index(edge.to, class_.tasks.size(), false, subject, "task");
    if (edge.from >= edge.to) {
      refuse_open(fmt::format("{}an edge leads from task '{}' to '{}', which doesn't come after it", place_,
                              class_.tasks[edge.from].name, class_.tasks[edge.to].name),
                  "edges from an earlier task to a later task", "list the tasks in an order that the edges allow");
    }
    if (!(edge.confidence >= 0 && edge.confidence <= 1)) {
      refuse_open(fmt::format("{} has confidence {}", subject, edge.confidence), "a number from 0 to 1",
                  "correct the number");
    }
    if (edge.after_begin_ns) expect_number(*edge.after_begin_ns, subject + ": after_begin_ns");
  }

  const OpenGraph& graph_;
  const OpenClass& class_;
  std::string place_;
  std::vector<bool> written_;
};

void check_channels(const OpenGraph& graph, const std::string& place) {
  OpenNames names("channel", place);
  for (const OpenChannel& channel : graph.channels) {
    names.add(channel.name);
    if (channel.group_size < 1) {
      refuse_open(fmt::format("{}channel '{}' has groups of {} ranks", place, channel.name, channel.group_size),
                  "one at least", "correct group_size");
    }
    const std::string subject = fmt::format("{}channel '{}'", place, channel.name);
    if (graph.world > 1 && channel.group_size > graph.world) {
      refuse_open(fmt::format("{} has groups of {} ranks, and world is {}", subject, channel.group_size, graph.world),
                  "no more than world", "correct group_size or world");
    }
    for (const auto& group : channel.groups) {
      // Fewer may stand for all.
      if (channel.group_size > 1 && std::ssize(group) > channel.group_size) {
        refuse_open(
            fmt::format("{}: a group has {} ranks, and group_size is {}", subject, group.size(), channel.group_size),
            "no more than group_size", "correct the group or group_size");
      }
      std::unordered_set<std::int64_t> members;
      for (const std::int64_t rank : group) {
        if (!members.insert(rank).second) {
          refuse_open(fmt::format("{}: rank {} stands in a group twice", subject, rank), "each rank once",
                      "take it out");
        }
        if (rank >= 0 && rank < graph.world) continue;
        refuse_open(fmt::format("{}channel '{}': rank {} doesn't exist", place, channel.name, rank),
                    fmt::format("ranks from 0 to {}, as world is {}", graph.world - 1, graph.world),
                    "correct the group or world");
      }
    }
  }
}

}  // namespace

void check(const OpenGraph& graph, std::string_view file) {
  const std::string place = file.empty() ? "" : fmt::format("{}: ", file);
  if (graph.classes.empty()) {
    refuse_open(place + "the graph has no classes", "one class of ranks at least", "add a class with tasks");
  }
  if (graph.world < 1)
    refuse_open(fmt::format("{}world is {}", place, graph.world), "one rank at least", "correct world");
  check_channels(graph, place);
  OpenNames classes("class", place);
  std::unordered_set<std::int64_t> ranks;
  for (const OpenClass& one : graph.classes) {
    if (graph.classes.size() > 1) classes.add(one.name);
    ClassCheck(graph, one, place).run();
    for (const std::int64_t rank : one.ranks) {
      if (ranks.insert(rank).second) continue;
      refuse_open(fmt::format("{}rank {} is in two classes", place, rank), "each rank in one class",
                  "take it out of one of them");
    }
  }
}

double slowdown_of(std::span<const OpenSlowdown> slowdowns, std::string_view compute, std::string_view collective) {
  const auto matches = [](const std::string& wanted, std::string_view kind) {
    return wanted.empty() || wanted == kind;
  };
  const auto found = std::ranges::find_if(slowdowns, [&](const OpenSlowdown& each) {
    return matches(each.compute, compute) && matches(each.collective, collective);
  });
  return found == slowdowns.end() ? 1 : found->factor;
}

double least_loss(std::span<const OpenSlowdown> slowdowns, const std::set<std::string_view>& computations,
                  std::string_view collective) {
  double least = std::numeric_limits<double>::infinity();
  for (const std::string_view compute : computations)
    least = std::min(least, slowdown_of(slowdowns, compute, collective));
  return computations.empty() ? 0 : 1 - 1 / least;
}

}  // namespace weft::graph
