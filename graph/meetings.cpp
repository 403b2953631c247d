#include "graph/meetings.h"

#include <map>
#include <tuple>
#include <variant>

#include "graph/grid.h"

namespace weft::graph {

bool is_shared_by_classes(Channel channel) {
  return channel == Channel::world || channel == Channel::pipe || channel == Channel::embedding;
}

Meetings::Meetings(Classes classes) {
  for (const auto& graph : classes) meeting_of_.emplace_back(graph->tasks().size(), kNone);
  if (classes.size() < 2) return;
  pair_messages(classes);
  join_collectives(classes);
}

void Meetings::add(std::uint32_t meeting, ClassTask member) {
  if (meeting == all_.size()) all_.emplace_back();
  all_[meeting].members.push_back(member);
  meeting_of_[member.of_class][member.task] = meeting;
}

void Meetings::pair_messages(Classes classes) {
  // By sender, its channel and the message's number.
  std::map<std::tuple<std::uint32_t, Channel, std::int64_t>, std::uint32_t> sends;
  const auto stages = static_cast<std::int64_t>(classes.size());
  for (std::uint32_t k = 0; k < classes.size(); ++k) {
    const auto tasks = classes[k]->tasks();
    for (std::uint32_t i = 0; i < tasks.size(); ++i) {
      const auto* send = std::get_if<Send>(&tasks[i].operation);
      if (send == nullptr) continue;
      const auto meeting = static_cast<std::uint32_t>(all_.size());
      if (sends.try_emplace({k, send->channel, send->message}, meeting).second) add(meeting, {k, i});
    }
  }
  for (std::uint32_t k = 0; k < classes.size(); ++k) {
    const auto tasks = classes[k]->tasks();
    for (std::uint32_t i = 0; i < tasks.size(); ++i) {
      const auto* receive = std::get_if<Receive>(&tasks[i].operation);
      if (receive == nullptr) continue;
      const auto sender = static_cast<std::uint32_t>(peer_stage(receive->channel, k, stages));
      const auto found = sends.find({sender, other_end(receive->channel), receive->message});
      const bool free = found != sends.end() && all_[found->second].members.size() == 1;
      add(free ? found->second : static_cast<std::uint32_t>(all_.size()), {k, i});
    }
  }
}

void Meetings::join_collectives(Classes classes) {
  std::map<std::pair<Channel, std::uint32_t>, std::uint32_t> known;
  for (std::uint32_t k = 0; k < classes.size(); ++k) {
    const auto tasks = classes[k]->tasks();
    std::map<Channel, std::uint32_t> count;
    for (std::uint32_t i = 0; i < tasks.size(); ++i) {
      const Channel* channel = channel_of(tasks[i].operation);
      if (channel == nullptr || !is_shared_by_classes(*channel)) continue;
      const auto meeting = static_cast<std::uint32_t>(all_.size());
      const std::uint32_t place = count[*channel]++;
      const auto [found, is_new] = known.try_emplace({*channel, place}, meeting);
      add(found->second, {k, i});
      if (!is_new || place == 0) continue;
      all_[known.at({*channel, place - 1})].next = meeting;
      all_[meeting].has_previous = true;
    }
  }
}

}  // namespace weft::graph
