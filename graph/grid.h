// The arrangement of ranks, and the group of ranks of each collective.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/operation.h"

namespace weft::graph {

/// The axes of 3D tensor parallelism, of the batch, and `pipe`, along which stages of layers follow each other.
enum class Axis : std::uint8_t { x, y, z, data, pipe };

/// The axes that an order arranges. `pipe` stands within data in every order.
inline constexpr std::array<Axis, 4> kAxes = {Axis::x, Axis::y, Axis::z, Axis::data};

std::string_view to_string(Axis axis);

/// One coordinate for each axis.
struct Coordinates {
  std::int64_t x = 0, y = 0, z = 0, data = 0, pipe = 0;
  std::int64_t on(Axis axis) const;
  std::int64_t& on(Axis axis);
  friend bool operator==(const Coordinates&, const Coordinates&) = default;
};

/// Sizes of the axes. x, y and z divide the model's matrices (3D tensor parallel), pipe divides its layers into stages;
/// z and data divide the batch. `order` lists the axes from the innermost, and pipe comes right before data: by default
/// rank = (((data·P + pipe)·Z + z)·Y + y)·X + x.
struct Grid {
  std::int64_t x = 1, y = 1, z = 1, data = 1;
  std::array<Axis, 4> order = kAxes;
  std::int64_t pipe = 1;

  std::int64_t ranks() const { return x * y * z * pipe * data; }
  std::int64_t on(Axis axis) const;
  std::int64_t& on(Axis axis);
  /// Number of ranks that hold different sequences of a batch: they differ in z or data.
  std::int64_t batch_ranks() const { return z * data; }
  /// Number of ranks that together hold one copy of the model.
  std::int64_t model_ranks() const { return x * y * z * pipe; }
  friend bool operator==(const Grid&, const Grid&) = default;
};

/// "x=2,y=1,z=2,data=1"; with stages "x=2,y=1,z=2,data=1,pipe=4".
std::string to_string(const Grid& grid);

Coordinates coordinates_of(const Grid& grid, std::int64_t rank);
std::int64_t rank_of(const Grid& grid, const Coordinates& coordinates);

/// The index of the part of the batch that a rank reads: data·Z + z.
std::int64_t batch_rank(const Grid& grid, const Coordinates& at);

/// The axis along which a channel's groups run; pipe for channels between stages. Throws std::logic_error for `world`
/// and `stage`, which have none.
Axis axis_of(Channel channel);

/// Number of ranks in a channel's group: for messages, the two ends.
std::int64_t group_size(const Grid& grid, Channel channel);

/// Ranks with equal colours form a group of the channel; a group is ordered by its ranks' coordinates. The colour is
/// the group's first rank. For messages it is the ring of stages in which they travel.
std::int64_t group_color(const Grid& grid, Channel channel, std::int64_t rank);

/// The stage at the other end of a message channel, seen from `stage`. Stages form a ring.
std::int64_t peer_stage(Channel channel, std::int64_t stage, std::int64_t stages);
/// The rank at the other end of a message channel.
std::int64_t peer_rank(const Grid& grid, Channel channel, std::int64_t rank);

/// The rank classes, by pipeline rank, with members in one group of a channel, rising: all of them for world and pipe,
/// the first and the last for embedding. Empty for channels whose groups lie within a class, and for messages.
std::vector<std::size_t> classes_of_channel(Channel channel, std::size_t classes);

}  // namespace weft::graph
