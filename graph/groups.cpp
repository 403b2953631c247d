#include "graph/groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>

namespace weft::graph {
namespace {

constexpr std::string_view kOwn = "own ";  // with the channel's number among the graph's own

}  // namespace

std::optional<Channel> find_channel(std::string_view name) {
  constexpr std::array kChannels = {Channel::x,         Channel::y,    Channel::z_gather,
                                    Channel::z_scatter, Channel::data, Channel::world};
  const auto* const found = std::ranges::find(kChannels, name, [](Channel c) { return to_string(c); });
  if (found != kChannels.end()) return *found;
  std::size_t own = 0;
  if (!name.starts_with(kOwn)) return std::nullopt;
  const std::string_view number = name.substr(kOwn.size());
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), own);
  if (error != std::errc() || end != number.data() + number.size() || own >= kMostOwnChannels) return std::nullopt;
  return static_cast<Channel>(kAxisChannels + own);
}

std::string channel_text(Channel channel) {
  if (!is_own(channel)) return std::string(to_string(channel));
  return fmt::format("{}{}", kOwn, static_cast<std::size_t>(channel) - kAxisChannels);
}

std::vector<std::int64_t> group_ranks(const Grid& grid, Channel channel, std::int64_t rank) {
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
    if (group_color(grid, channel, rank) == rank) groups.push_back(group_ranks(grid, channel, rank));
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
