// Which ranks a channel's collectives join, for those who draw, trace and export them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/grid.h"

namespace weft::graph {

/// The channel whose to_string() is `name`.
std::optional<Channel> find_channel(std::string_view name);

/// The ranks of the channel's group that `rank` belongs to, in the group's order.
std::vector<std::int64_t> group_ranks(const Grid& grid, Channel channel, std::int64_t rank);

/// Every group of the channel, each as group_ranks(), in the order of their first ranks: each rank is in one of them.
std::vector<std::vector<std::int64_t>> groups_of(const Grid& grid, Channel channel);

/// "ranks 0, 2"; of more than `most`, which is 2 or more, the first ones and the last: "ranks 0, 2, …, 14".
std::string ranks_text(const std::vector<std::int64_t>& ranks, std::size_t most);

}  // namespace weft::graph
