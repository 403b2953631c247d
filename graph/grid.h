// The arrangement of ranks, and the group of ranks of each collective.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "graph/operation.h"

namespace weft::graph {

enum class Axis : std::uint8_t { x, y, z, data };

inline constexpr std::array<Axis, 4> kAxes = {Axis::x, Axis::y, Axis::z, Axis::data};

std::string_view to_string(Axis axis);

/// One coordinate for each axis.
struct Coordinates {
  std::int64_t x = 0, y = 0, z = 0, data = 0;
  std::int64_t on(Axis axis) const;
  std::int64_t& on(Axis axis);
  friend bool operator==(const Coordinates&, const Coordinates&) = default;
};

/// Sizes of the axes. x, y and z divide the model (3D tensor parallel); z and data divide the batch. `order` lists the
/// axes from the innermost: by default rank = ((data·Z + z)·Y + y)·X + x.
struct Grid {
  std::int64_t x = 1, y = 1, z = 1, data = 1;
  std::array<Axis, 4> order = kAxes;

  std::int64_t ranks() const { return x * y * z * data; }
  std::int64_t on(Axis axis) const;
  std::int64_t& on(Axis axis);
  /// Number of ranks that hold different sequences of a batch: they differ in z or data.
  std::int64_t batch_ranks() const { return z * data; }
  /// Number of ranks that together hold one copy of the model.
  std::int64_t model_ranks() const { return x * y * z; }
  friend bool operator==(const Grid&, const Grid&) = default;
};

/// "x=2,y=1,z=2,data=1".
std::string to_string(const Grid& grid);

Coordinates coordinates_of(const Grid& grid, std::int64_t rank);
std::int64_t rank_of(const Grid& grid, const Coordinates& coordinates);

/// The index of the part of the batch that a rank reads: data·Z + z.
std::int64_t batch_rank(const Grid& grid, const Coordinates& at);

/// The axis along which a channel's groups run. Throws std::logic_error for `world`, which has none.
Axis axis_of(Channel channel);

/// Number of ranks in a channel's group.
std::int64_t group_size(const Grid& grid, Channel channel);

/// Ranks with equal colours form a group of the channel; a group is ordered by its ranks' coordinates.
std::int64_t group_color(const Grid& grid, Channel channel, std::int64_t rank);

}  // namespace weft::graph
