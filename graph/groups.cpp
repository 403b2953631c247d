#include "graph/groups.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"

namespace weft::graph {
namespace {

constexpr std::string_view kOwn = "own ";  // with the channel's number among the graph's own

std::vector<std::int64_t> ranks_of_color(const Grid& grid, Channel channel, std::int64_t rank) {
  std::vector<std::int64_t> ranks;
  const std::int64_t color = group_color(grid, channel, rank);
  for (std::int64_t other = 0; other < grid.ranks(); ++other) {
    if (group_color(grid, channel, other) == color) ranks.push_back(other);
  }
  return ranks;
}

}  // namespace

std::optional<Channel> find_channel(std::string_view name) {
  for (std::size_t i = 0; i < kAxisChannels; ++i) {
    const auto channel = static_cast<Channel>(i);
    if (to_string(channel) == name) return channel;
  }
  if (!name.starts_with(kOwn)) return std::nullopt;
  const auto own = number_in<std::size_t>(name.substr(kOwn.size()));
  return own && *own < kMostOwnChannels ? std::optional(static_cast<Channel>(kAxisChannels + *own)) : std::nullopt;
}

std::string channel_text(Channel channel) {
  if (!is_own(channel)) return std::string(to_string(channel));
  return fmt::format("{}{}", kOwn, static_cast<std::size_t>(channel) - kAxisChannels);
}

std::vector<std::int64_t> group_ranks(const Grid& grid, Channel channel, std::int64_t rank) {
  if (is_message(channel)) {
    const std::int64_t peer = peer_rank(grid, channel, rank);
    const bool sends = channel == Channel::send_next || channel == Channel::send_previous;
    return sends ? std::vector{rank, peer} : std::vector{peer, rank};
  }
  if (channel == Channel::stage || channel == Channel::embedding) return ranks_of_color(grid, channel, rank);
  std::vector<std::int64_t> ranks;
  Coordinates at = coordinates_of(grid, rank);
  for (std::int64_t i = 0; i < group_size(grid, channel); ++i) {
    if (channel == Channel::world) {
      ranks.push_back(i);
    } else {
      at.on(axis_of(channel)) = i;
      ranks.push_back(rank_of(grid, at));
    }
  }
  return ranks;
}

std::vector<std::vector<std::int64_t>> groups_of(const Grid& grid, Channel channel) {
  std::vector<std::vector<std::int64_t>> groups;
  for (std::int64_t rank = 0; rank < grid.ranks(); ++rank) {
    if (is_message(channel) || group_color(grid, channel, rank) == rank)
      groups.push_back(group_ranks(grid, channel, rank));
  }
  return groups;
}

std::string ranks_text(const std::vector<std::int64_t>& ranks, std::size_t most) {
  const std::string_view word = ranks.size() == 1 ? "rank" : "ranks";
  if (ranks.size() <= most) return fmt::format("{} {}", word, fmt::join(ranks, ", "));
  const auto shown = ranks.begin() + static_cast<std::ptrdiff_t>(most) - 1;
  return fmt::format("{} {}, …, {}", word, fmt::join(ranks.begin(), shown, ", "), ranks.back());
}

}  // namespace weft::graph
