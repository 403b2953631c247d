// How ranks are arranged, and which of them a collective joins.
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

/// One number for each axis.
struct Coordinates {
  std::int64_t x = 0, y = 0, z = 0, data = 0;
  std::int64_t on(Axis axis) const;
  std::int64_t& on(Axis axis);
  friend bool operator==(const Coordinates&, const Coordinates&) = default;
};

/// Sizes of the axes: x, y and z cut the model (3D tensor parallel), z and data the batch. `order` begins with the axis
/// on which neighbouring ranks differ: by default rank = ((data·Z + z)·Y + y)·X + x.
struct Grid {
  std::int64_t x = 1, y = 1, z = 1, data = 1;
  std::array<Axis, 4> order = kAxes;

  std::int64_t ranks() const { return x * y * z * data; }
  std::int64_t on(Axis axis) const;
  std::int64_t& on(Axis axis);
  /// Ranks that hold different sequences of a batch: those that differ in z or data.
  std::int64_t batch_ranks() const { return z * data; }
  /// Ranks that together hold one copy of the model.
  std::int64_t model_ranks() const { return x * y * z; }
  friend bool operator==(const Grid&, const Grid&) = default;
};

/// "x=2,y=1,z=2,data=1".
std::string to_string(const Grid& grid);

Coordinates coordinates_of(const Grid& grid, std::int64_t rank);
std::int64_t rank_of(const Grid& grid, const Coordinates& coordinates);

/// Which part of the batch a rank reads: data·Z + z.
std::int64_t batch_rank(const Grid& grid, const Coordinates& at);

/// The axis that a channel's groups run along; `world` has none: std::logic_error.
Axis axis_of(Channel channel);

/// Ranks of a channel's group.
std::int64_t group_size(const Grid& grid, Channel channel);

/// Ranks with equal colours form a channel's group; within it they stand in the order of their coordinate.
std::int64_t group_color(const Grid& grid, Channel channel, std::int64_t rank);

}  // namespace weft::graph
