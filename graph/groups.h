// The ranks that a channel's collectives join, for drawings, traces and exports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/grid.h"

namespace weft::graph {

/// The channel as text that find_channel() reads, without the graph that names it: "z_gather"; "own 2" for the third
/// that a graph describes itself.
std::string channel_text(Channel channel);

/// The channel whose channel_text() is `name`.
std::optional<Channel> find_channel(std::string_view name);

/// The ranks of the channel's group that contains `rank`, in the group's order.
std::vector<std::int64_t> group_ranks(const Grid& grid, Channel channel, std::int64_t rank);

/// All groups of the channel, each as group_ranks() returns it, ordered by first rank. Each rank is in exactly
/// one; for messages, each rank's own with its peer.
std::vector<std::vector<std::int64_t>> groups_of(const Grid& grid, Channel channel);

/// "ranks 0, 2". More than `most` ranks (at least 2) are shortened to the first ones and the last: "ranks 0, 2, …, 14".
std::string ranks_text(const std::vector<std::int64_t>& ranks, std::size_t most);

}  // namespace weft::graph
