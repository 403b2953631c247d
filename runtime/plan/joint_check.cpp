#include "runtime/plan/joint_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <variant>

#include "graph/grid.h"
#include "runtime/plan/collective_signature.h"
#include "runtime/plan/joint_replay.h"

namespace weft::plan {
namespace {

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
  Message message;
  if (const graph::Access* payload = graph::payload_of(task)) message.dtype = graph.tensor(payload->view.tensor).dtype;
  if (const auto* send = std::get_if<graph::Send>(&task.operation)) {
    message.number = send->message;
    message.count = send->count;
    return message;
  }
  if (const auto* receive = std::get_if<graph::Receive>(&task.operation)) {
    message.number = receive->message;
    message.count = receive->count;
    return message;
  }
  return std::nullopt;
}

class JointCheck {
 public:
  JointCheck(std::span<const Plan* const> plans, std::size_t limit) : plans_(plans), limit_(limit) {}

  void check_messages() {
    for (std::size_t stage = 0; stage < plans_.size(); ++stage) {
      for (const graph::Channel channel : {graph::Channel::send_next, graph::Channel::send_previous})
        check_channel(stage, channel);
    }
  }

  void check_shared_collectives() {
    for (const graph::Channel channel : {graph::Channel::world, graph::Channel::pipe, graph::Channel::embedding}) {
      const std::vector<std::size_t> members = graph::classes_of_channel(channel, plans_.size());
      const std::vector<graph::TaskId> first = tasks_on(*plans_[0], channel);
      for (std::size_t stage = 1; stage < plans_.size(); ++stage) {
        const std::vector<graph::TaskId> tasks = tasks_on(*plans_[stage], channel);
        if (std::ranges::find(members, stage) != members.end()) {
          compare_collectives(stage, tasks, first);
        } else if (!tasks.empty()) {
          add(Violation::Kind::collective_order,
              fmt::format("{} is a collective on {}, of which stage {} isn't a member", at(stage, tasks.front()),
                          graph::to_string(channel), stage));
        }
      }
    }
  }

  void check_progress() {
    const JointReplay streams(plans_, JointReplay::Queues::by_channel);
    if (!streams.complete()) return add(Violation::Kind::deadlock, "deadlock: " + streams.circle());
    const JointReplay queue(plans_, JointReplay::Queues::one);
    if (queue.complete()) return;
    add(Violation::Kind::one_queue,
        "deadlock where a rank runs one collective or message at a time: " + queue.circle());
  }

  bool empty() const { return violations_.empty(); }
  std::vector<Violation> take() && { return std::move(violations_); }

 private:
  void add(Violation::Kind kind, std::string message) {
    if (violations_.size() < limit_) violations_.push_back({kind, std::move(message)});
  }

  std::string at(std::size_t stage, graph::TaskId task) const {
    return fmt::format("stage {}: {}", stage, plans_[stage]->graph->task(task).name);
  }

  std::string words(std::size_t stage, graph::TaskId task) const {
    const graph::Graph& graph = *plans_[stage]->graph;
    const std::optional<Message> message = message_of(graph, graph.task(task));
    if (!message) return at(stage, task) + " (no message)";
    return fmt::format("{} (message {}, {} {})", at(stage, task), message->number, message->count,
                       to_string(message->dtype));
  }

  /// Reports the channel's first pair that doesn't fit; later ones follow from it.
  void check_channel(std::size_t stage, graph::Channel channel) {
    const auto peer = static_cast<std::size_t>(
        graph::peer_stage(channel, static_cast<std::int64_t>(stage), static_cast<std::int64_t>(plans_.size())));
    const graph::Channel end = graph::other_end(channel);
    const std::vector<graph::TaskId> sends = tasks_on(*plans_[stage], channel), receives = tasks_on(*plans_[peer], end);
    for (std::size_t i = 0; i < std::max(sends.size(), receives.size()); ++i) {
      if (i >= sends.size()) {
        return add(Violation::Kind::message,
                   fmt::format("{} ({}) has no send: stage {} sends {} messages on {}", words(peer, receives[i]),
                               graph::to_string(end), stage, sends.size(), graph::to_string(channel)));
      }
      if (i >= receives.size()) {
        return add(Violation::Kind::message,
                   fmt::format("{} ({}) has no receive: stage {} receives {} messages on {}", words(stage, sends[i]),
                               graph::to_string(channel), peer, receives.size(), graph::to_string(end)));
      }
      const graph::Task &send = plans_[stage]->graph->task(sends[i]), &receive = plans_[peer]->graph->task(receives[i]);
      const std::optional<Message> sent = message_of(*plans_[stage]->graph, send),
                                   received = message_of(*plans_[peer]->graph, receive);
      if (sent && sent == received && std::holds_alternative<graph::Send>(send.operation) &&
          std::holds_alternative<graph::Receive>(receive.operation)) {
        continue;
      }
      return add(Violation::Kind::message,
                 fmt::format("{} on {} meets {} on {} (position {})", words(stage, sends[i]), graph::to_string(channel),
                             words(peer, receives[i]), graph::to_string(end), i));
    }
  }

  void compare_collectives(std::size_t stage, const std::vector<graph::TaskId>& tasks,
                           const std::vector<graph::TaskId>& first) {
    const auto signature = [&](std::size_t k, const std::vector<graph::TaskId>& list, std::size_t i) {
      return i < list.size() ? std::optional(signature_of(*plans_[k]->graph, list[i])) : std::nullopt;
    };
    const auto text = [](const std::optional<CollectiveSignature>& s) { return s ? to_string(*s) : "nothing more"; };
    for (std::size_t i = 0; i < std::max(tasks.size(), first.size()); ++i) {
      const auto ours = signature(0, first, i), theirs = signature(stage, tasks, i);
      if (ours == theirs) continue;
      return add(
          Violation::Kind::collective_order,
          fmt::format("stage {} issues {} where stage 0 issues {} (position {})", stage, text(theirs), text(ours), i));
    }
  }

  std::span<const Plan* const> plans_;
  std::size_t limit_;
  std::vector<Violation> violations_;
};

}  // namespace

std::vector<Violation> check_together(std::span<const Plan* const> plans, std::size_t limit) {
  if (plans.empty()) return {};
  JointCheck check(plans, limit);
  check.check_messages();
  check.check_shared_collectives();
  if (check.empty()) check.check_progress();
  return std::move(check).take();
}

}  // namespace weft::plan
