#include "runtime/policy/pipeline/joint_steps.h"

#include <map>
#include <tuple>
#include <variant>

#include "graph/grid.h"

namespace weft::policy {

using graph::Channel;

bool is_shared_by_stages(Channel channel) {
  return channel == Channel::world || channel == Channel::pipe || channel == Channel::embedding;
}

JointSteps::JointSteps(PipelineClasses classes) {
  for (const auto& graph : classes) step_of_.emplace_back(graph->tasks().size(), kNone);
  if (classes.size() < 2) return;
  pair_messages(classes);
  join_collectives(classes);
}

void JointSteps::add(std::uint32_t step, std::uint32_t rank, std::uint32_t task) {
  if (step == steps_.size()) steps_.emplace_back();
  steps_[step].members.push_back({rank, task});
  step_of_[rank][task] = step;
}

void JointSteps::pair_messages(PipelineClasses classes) {
  // By sender, its channel and the message's number.
  std::map<std::tuple<std::uint32_t, Channel, std::int64_t>, std::uint32_t> sends;
  const auto stages = static_cast<std::int64_t>(classes.size());
  for (std::uint32_t rank = 0; rank < classes.size(); ++rank) {
    const auto tasks = classes[rank]->tasks();
    for (std::uint32_t i = 0; i < tasks.size(); ++i) {
      const auto* send = std::get_if<graph::Send>(&tasks[i].operation);
      if (send == nullptr) continue;
      const auto step = static_cast<std::uint32_t>(steps_.size());
      if (sends.try_emplace({rank, send->channel, send->message}, step).second) add(step, rank, i);
    }
  }
  for (std::uint32_t rank = 0; rank < classes.size(); ++rank) {
    const auto tasks = classes[rank]->tasks();
    for (std::uint32_t i = 0; i < tasks.size(); ++i) {
      const auto* receive = std::get_if<graph::Receive>(&tasks[i].operation);
      if (receive == nullptr) continue;
      const auto sender = static_cast<std::uint32_t>(graph::peer_stage(receive->channel, rank, stages));
      const auto found = sends.find({sender, graph::other_end(receive->channel), receive->message});
      const bool free = found != sends.end() && steps_[found->second].members.size() == 1;
      add(free ? found->second : static_cast<std::uint32_t>(steps_.size()), rank, i);
    }
  }
}

void JointSteps::join_collectives(PipelineClasses classes) {
  std::map<std::pair<Channel, std::uint32_t>, std::uint32_t> known;
  for (std::uint32_t rank = 0; rank < classes.size(); ++rank) {
    const auto tasks = classes[rank]->tasks();
    std::map<Channel, std::uint32_t> count;
    for (std::uint32_t i = 0; i < tasks.size(); ++i) {
      const Channel* channel = graph::channel_of(tasks[i].operation);
      if (channel == nullptr || !is_shared_by_stages(*channel)) continue;
      const auto step = static_cast<std::uint32_t>(steps_.size());
      const std::uint32_t place = count[*channel]++;
      const auto [found, is_new] = known.try_emplace({*channel, place}, step);
      add(found->second, rank, i);
      if (!is_new || place == 0) continue;
      steps_[known.at({*channel, place - 1})].next = step;
      steps_[step].has_previous = true;
    }
  }
}

}  // namespace weft::policy
