#include "graph/meetings.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <variant>

#include "graph/grid.h"

namespace weft::graph {

std::vector<ClassChannel> channels_together(const Graph& graph, std::size_t of_class, std::size_t classes,
                                            Channel channel) {
  const ClassChannel own{static_cast<std::uint32_t>(of_class), channel};
  if (classes == 1) return {own};
  if (const ChannelInfo* info = graph.channel_info(channel)) {
    return info->together.empty() ? std::vector{own} : info->together;
  }
  if (is_message(channel)) {
    const std::int64_t peer = peer_stage(channel, own.of_class, static_cast<std::int64_t>(classes));
    const ClassChannel other{static_cast<std::uint32_t>(peer), other_end(channel)};
    return graph.direction(channel) == Direction::out ? std::vector{own, other} : std::vector{other, own};
  }
  std::vector<ClassChannel> together;
  for (const std::size_t member : classes_of_channel(channel, classes)) {
    together.push_back({static_cast<std::uint32_t>(member), channel});
  }
  return std::ranges::find(together, own) == together.end() ? std::vector{own} : together;
}

Meetings::Meetings(Classes classes) {
  for (const auto& graph : classes) meeting_of_.emplace_back(graph->tasks().size(), kNone);
  if (classes.size() < 2) return;
  if (classes.front()->has_opaque_tasks()) {
    join_opaque_tasks(classes);
  } else {
    pair_messages(classes);
    join_collectives(classes);
  }
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

void Meetings::join_opaque_tasks(Classes classes) {
  std::map<std::int64_t, std::uint32_t> known;
  for (std::uint32_t k = 0; k < classes.size(); ++k) {
    const auto tasks = classes[k]->tasks();
    for (std::uint32_t i = 0; i < tasks.size(); ++i) {
      const auto* opaque = std::get_if<Opaque>(&tasks[i].operation);
      if (opaque == nullptr || opaque->meeting < 0) continue;
      const std::uint32_t meeting =
          known.try_emplace(opaque->meeting, static_cast<std::uint32_t>(all_.size())).first->second;
      add(meeting, {k, i});
      if (classes[k]->direction(opaque->queue) == Direction::out)
        std::swap(all_[meeting].members.front(), all_[meeting].members.back());
    }
  }
}

void Meetings::join_collectives(Classes classes) {
  std::map<std::pair<Channel, std::uint32_t>, std::uint32_t> known;
  for (std::uint32_t k = 0; k < classes.size(); ++k) {
    const auto tasks = classes[k]->tasks();
    std::map<Channel, std::uint32_t> count;  // kNone for channels that lie within the class
    for (std::uint32_t i = 0; i < tasks.size(); ++i) {
      const Channel* channel = channel_of(tasks[i].operation);
      if (channel == nullptr || is_message(*channel)) continue;
      const auto [counted, first] = count.try_emplace(*channel, 0);
      if (first && channels_together(*classes[k], k, classes.size(), *channel).size() < 2) counted->second = kNone;
      if (counted->second == kNone) continue;
      const auto meeting = static_cast<std::uint32_t>(all_.size());
      const std::uint32_t place = counted->second++;
      const auto [found, is_new] = known.try_emplace({*channel, place}, meeting);
      add(found->second, {k, i});
      if (!is_new || place == 0) continue;
      all_[known.at({*channel, place - 1})].next = meeting;
      all_[meeting].has_previous = true;
    }
  }
}

}  // namespace weft::graph
