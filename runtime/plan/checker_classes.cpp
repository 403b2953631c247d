#include "runtime/plan/checker_classes.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "graph/grid.h"
#include "runtime/plan/collective_signature.h"

namespace weft::plan {
namespace {

using Kind = Violation::Kind;

std::vector<graph::TaskId> tasks_on(const Plan& plan, graph::Channel channel) {
  std::vector<graph::TaskId> tasks;
  for (const StreamPlan& stream : plan.streams) {
    if (stream.stream.compute || stream.stream.channel != channel) continue;
    for (const Entry& entry : stream.entries) tasks.push_back(entry.task);
  }
  return tasks;
}

/// The properties on which both ends of a message must agree.
struct Message {
  std::int64_t number = 0, count = 0;
  DType dtype = DType::f32;
  friend bool operator==(const Message&, const Message&) = default;
};

std::optional<Message> message_of(const graph::Graph& graph, const graph::Task& task) {
  const graph::Access* const payload = graph::payload_of(task);
  const DType dtype = payload != nullptr ? graph.tensor(payload->view.tensor).dtype : DType::f32;
  const auto of = [&](const auto& end) { return Message{end.message, end.count, dtype}; };
  if (const auto* send = std::get_if<graph::Send>(&task.operation)) return of(*send);
  if (const auto* receive = std::get_if<graph::Receive>(&task.operation)) return of(*receive);
  return std::nullopt;
}

class BetweenClasses {
 public:
  explicit BetweenClasses(std::span<const Plan* const> plans) : plans_(plans) {}

  // A class by itself may be a stage whose neighbours' graphs aren't there.
  void check_messages() {
    if (plans_.size() == 1) return;
    for (std::size_t k = 0; k < plans_.size(); ++k) {
      for (const graph::Channel channel : {graph::Channel::send_next, graph::Channel::send_previous})
        check_channel(k, channel);
    }
  }

  void check_shared_collectives() {
    for (const graph::Channel channel : {graph::Channel::world, graph::Channel::pipe, graph::Channel::embedding}) {
      const std::vector<std::size_t> members = graph::classes_of_channel(channel, plans_.size());
      const std::vector<graph::TaskId> first = tasks_on(*plans_[0], channel);
      for (std::size_t k = 1; k < plans_.size(); ++k) {
        const std::vector<graph::TaskId> tasks = tasks_on(*plans_[k], channel);
        if (std::ranges::find(members, k) != members.end()) {
          compare_collectives(k, tasks, first);
        } else if (!tasks.empty()) {
          add(Kind::collective_order, "{} is a collective on {}, of which stage {} isn't a member",
              at(k, tasks.front()), graph::to_string(channel), k);
        }
      }
    }
  }

  /// Of somebody else's step: the tasks of channels that meet must have equal numbers (graph::Opaque::meeting).
  void check_opaque_meetings() {
    for (std::size_t k = 0; k < plans_.size(); ++k) {
      for (const graph::ChannelInfo& info : plans_[k]->graph->channels()) {
        if (info.together.empty()) continue;
        const graph::ClassChannel& first = info.together.front();
        const auto wanted = tasks_on(*plans_[first.of_class], first.channel),
                   tasks = tasks_on(*plans_[k], info.channel);
        for (std::size_t i = 0; i < std::max(wanted.size(), tasks.size()); ++i) {
          if (i < wanted.size() && i < tasks.size() && meeting_of(k, tasks[i]) == meeting_of(first.of_class, wanted[i]))
            continue;
          const auto text = [&](std::size_t of_class, const std::vector<graph::TaskId>& list) {
            return i < list.size() ? at(of_class, list[i]) : prefix_of_class(of_class, plans_.size()) + "nothing";
          };
          add(Kind::collective_order, "{} meets {} on {} (position {})", text(k, tasks), text(first.of_class, wanted),
              info.name, i);
          break;
        }
      }
    }
  }

  std::vector<Violation> take() && { return std::move(violations_); }

 private:
  template <class... Values>
  void add(Violation::Kind kind, fmt::format_string<Values...> text, Values&&... values) {
    violations_.push_back({kind, fmt::format(text, std::forward<Values>(values)...)});
  }

  std::string at(std::size_t k, graph::TaskId task) const {
    return prefix_of_class(k, plans_.size()) + plans_[k]->graph->task(task).name;
  }
  std::int64_t meeting_of(std::size_t k, graph::TaskId task) const {
    return std::get<graph::Opaque>(plans_[k]->graph->task(task).operation).meeting;
  }
  std::string words(std::size_t k, graph::TaskId task) const {
    const graph::Graph& graph = *plans_[k]->graph;
    const std::optional<Message> message = message_of(graph, graph.task(task));
    if (!message) return at(k, task) + " (no message)";
    return fmt::format("{} (message {}, {} {})", at(k, task), message->number, message->count,
                       to_string(message->dtype));
  }

  void check_channel(std::size_t k, graph::Channel channel) {
    const auto peer = static_cast<std::size_t>(
        graph::peer_stage(channel, static_cast<std::int64_t>(k), static_cast<std::int64_t>(plans_.size())));
    const graph::Channel end = graph::other_end(channel);
    const std::vector<graph::TaskId> sends = tasks_on(*plans_[k], channel), receives = tasks_on(*plans_[peer], end);
    for (std::size_t i = 0; i < std::max(sends.size(), receives.size()); ++i) {
      if (i >= sends.size()) {
        return add(Kind::message, "{} ({}) has no send: stage {} sends {} messages on {}", words(peer, receives[i]),
                   graph::to_string(end), k, sends.size(), graph::to_string(channel));
      }
      if (i >= receives.size()) {
        return add(Kind::message, "{} ({}) has no receive: stage {} receives {} messages on {}", words(k, sends[i]),
                   graph::to_string(channel), peer, receives.size(), graph::to_string(end));
      }
      const graph::Task &send = plans_[k]->graph->task(sends[i]), &receive = plans_[peer]->graph->task(receives[i]);
      const std::optional<Message> sent = message_of(*plans_[k]->graph, send),
                                   received = message_of(*plans_[peer]->graph, receive);
      if (sent && sent == received && std::holds_alternative<graph::Send>(send.operation) &&
          std::holds_alternative<graph::Receive>(receive.operation)) {
        continue;
      }
      return add(Kind::message, "{} on {} meets {} on {} (position {})", words(k, sends[i]), graph::to_string(channel),
                 words(peer, receives[i]), graph::to_string(end), i);
    }
  }

  void compare_collectives(std::size_t k, const std::vector<graph::TaskId>& tasks,
                           const std::vector<graph::TaskId>& first) {
    const auto signature = [&](std::size_t of_class, const std::vector<graph::TaskId>& list, std::size_t i) {
      return i < list.size() ? std::optional(signature_of(*plans_[of_class]->graph, list[i])) : std::nullopt;
    };
    const auto text = [](const std::optional<CollectiveSignature>& s) { return s ? to_string(*s) : "nothing more"; };
    for (std::size_t i = 0; i < std::max(tasks.size(), first.size()); ++i) {
      const auto ours = signature(0, first, i), theirs = signature(k, tasks, i);
      if (ours == theirs) continue;
      return add(Kind::collective_order, "stage {} issues {} where stage 0 issues {} (position {})", k, text(theirs),
                 text(ours), i);
    }
  }

  std::span<const Plan* const> plans_;
  std::vector<Violation> violations_;
};

}  // namespace

std::string prefix_of_class(std::size_t of_class, std::size_t classes) {
  return classes == 1 ? "" : fmt::format("stage {}: ", of_class);
}

std::vector<Violation> check_between_classes(std::span<const Plan* const> plans) {
  BetweenClasses classes(plans);
  if (plans.front()->graph->has_opaque_tasks()) {
    classes.check_opaque_meetings();
  } else {
    classes.check_messages();
    classes.check_shared_collectives();
  }
  return std::move(classes).take();
}

}  // namespace weft::plan
