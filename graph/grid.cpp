#include "graph/grid.h"

#include <fmt/format.h>

#include <stdexcept>

#include "base/units.h"

namespace weft::graph {
namespace {

// The member of Coordinates or Grid for an axis.
template <class Axes>
auto& component(Axes& axes, Axis axis) {
  const std::array members = {&axes.x, &axes.y, &axes.z, &axes.data, &axes.pipe};
  return *members.at(static_cast<std::size_t>(axis));
}

constexpr std::string_view kOwn = "own ";  // with the channel's number among the graph's own

}  // namespace

std::string_view to_string(Axis axis) {
  static constexpr auto kNames = std::to_array<std::string_view>({"x", "y", "z", "data", "pipe"});
  return kNames.at(static_cast<std::size_t>(axis));
}

std::int64_t& Coordinates::on(Axis axis) {
  return component(*this, axis);
}

std::int64_t Coordinates::on(Axis axis) const {
  return component(*this, axis);
}

std::int64_t& Grid::on(Axis axis) {
  return component(*this, axis);
}

std::int64_t Grid::on(Axis axis) const {
  return component(*this, axis);
}

std::string to_string(const Grid& grid) {
  const std::string sizes = fmt::format("x={},y={},z={},data={}", grid.x, grid.y, grid.z, grid.data);
  const auto beside = [](const char* name, std::int64_t size) {
    return size == 1 ? std::string() : fmt::format(",{}={}", name, size);
  };
  return sizes + beside("pipe", grid.pipe) + beside("context", grid.context) + beside("expert", grid.expert);
}

Coordinates coordinates_of(const Grid& grid, std::int64_t rank) {
  Coordinates at;
  const auto take = [&](Axis axis) {
    at.on(axis) = rank % grid.on(axis);
    rank /= grid.on(axis);
  };
  for (Axis axis : grid.order) {
    if (axis == Axis::data) take(Axis::pipe);
    take(axis);
  }
  return at;
}

std::int64_t rank_of(const Grid& grid, const Coordinates& coordinates) {
  std::int64_t rank = 0, stride = 1;
  const auto add = [&](Axis axis) {
    rank += coordinates.on(axis) * stride;
    stride *= grid.on(axis);
  };
  for (Axis axis : grid.order) {
    if (axis == Axis::data) add(Axis::pipe);
    add(axis);
  }
  return rank;
}

std::int64_t batch_rank(const Grid& grid, const Coordinates& at) {
  return at.data * (grid.z / grid.context) + at.z / grid.context;
}

std::int64_t context_rank(const Grid& grid, const Coordinates& at) {
  return at.z % grid.context;
}

std::int64_t expert_rank(const Grid& grid, const Coordinates& at) {
  return at.z % grid.expert;
}

Axis axis_of(Channel channel) {
  switch (channel) {
    case Channel::x:
      return Axis::x;
    case Channel::y:
      return Axis::y;
    case Channel::z_gather:
    case Channel::z_scatter:
    case Channel::context:
    case Channel::expert:
    case Channel::expert_copies:
      return Axis::z;
    case Channel::data:
      return Axis::data;
    case Channel::pipe:
    case Channel::embedding:
    case Channel::send_next:
    case Channel::receive_previous:
    case Channel::send_previous:
    case Channel::receive_next:
      return Axis::pipe;
    case Channel::world:
    case Channel::stage:
      break;
  }
  throw std::logic_error("the world and a stage have no axis");
}

namespace {

/// Groups of `size` ranks of z that stand `stride` apart.
struct Fold {
  std::int64_t size, stride;

  /// The first of the ranks in the group of z.
  std::int64_t first(std::int64_t z) const { return z / (size * stride) * (size * stride) + z % stride; }
};

std::optional<Fold> fold_of(const Grid& grid, Channel channel) {
  if (channel == Channel::context) return Fold{grid.context, 1};
  if (channel == Channel::expert) return Fold{grid.expert, 1};
  if (channel == Channel::expert_copies) return Fold{grid.z / grid.expert, grid.expert};
  return std::nullopt;
}

}  // namespace

std::int64_t group_size(const Grid& grid, Channel channel) {
  if (channel == Channel::world) return grid.ranks();
  if (channel == Channel::stage) return grid.ranks() / grid.pipe;
  if (channel == Channel::embedding || is_message(channel)) return grid.pipe == 1 ? 1 : 2;
  if (const auto fold = fold_of(grid, channel)) return fold->size;
  return grid.on(axis_of(channel));
}

std::int64_t group_color(const Grid& grid, Channel channel, std::int64_t rank) {
  if (channel == Channel::world) return 0;
  Coordinates first = coordinates_of(grid, rank);
  if (channel == Channel::stage) return rank_of(grid, {.pipe = first.pipe});
  if (const auto fold = fold_of(grid, channel)) {
    first.z = fold->first(first.z);
    return rank_of(grid, first);
  }
  const bool between_ends = channel == Channel::embedding && first.pipe > 0 && first.pipe < grid.pipe - 1;
  if (!between_ends) first.on(axis_of(channel)) = 0;
  return rank_of(grid, first);
}

std::int64_t peer_stage(Channel channel, std::int64_t stage, std::int64_t stages) {
  const bool next = channel == Channel::send_next || channel == Channel::receive_next;
  return (stage + (next ? 1 : stages - 1)) % stages;
}

std::int64_t peer_rank(const Grid& grid, Channel channel, std::int64_t rank) {
  Coordinates at = coordinates_of(grid, rank);
  at.pipe = peer_stage(channel, at.pipe, grid.pipe);
  return rank_of(grid, at);
}

std::vector<std::size_t> classes_of_channel(Channel channel, std::size_t classes) {
  std::vector<std::size_t> members;
  if (channel == Channel::world || channel == Channel::pipe) {
    for (std::size_t k = 0; k < classes; ++k) members.push_back(k);
  } else if (channel == Channel::embedding) {
    members.push_back(0);
    if (classes > 1) members.push_back(classes - 1);
  }
  return members;
}

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

namespace {

std::vector<std::int64_t> ranks_of_color(const Grid& grid, Channel channel, std::int64_t rank) {
  std::vector<std::int64_t> ranks;
  const std::int64_t color = group_color(grid, channel, rank);
  for (std::int64_t other = 0; other < grid.ranks(); ++other) {
    if (group_color(grid, channel, other) == color) ranks.push_back(other);
  }
  return ranks;
}

}  // namespace

std::vector<std::int64_t> group_ranks(const Grid& grid, Channel channel, std::int64_t rank) {
  if (is_message(channel)) {
    const std::int64_t peer = peer_rank(grid, channel, rank);
    const bool sends = channel == Channel::send_next || channel == Channel::send_previous;
    return sends ? std::vector{rank, peer} : std::vector{peer, rank};
  }
  if (channel == Channel::stage || channel == Channel::embedding) return ranks_of_color(grid, channel, rank);
  std::vector<std::int64_t> ranks;
  Coordinates at = coordinates_of(grid, rank);
  const auto fold = fold_of(grid, channel);
  const std::int64_t first = fold ? fold->first(at.z) : 0, stride = fold ? fold->stride : 1;
  for (std::int64_t i = 0; i < group_size(grid, channel); ++i) {
    if (channel == Channel::world) {
      ranks.push_back(i);
    } else {
      at.on(axis_of(channel)) = first + i * stride;
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
