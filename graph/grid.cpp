#include "graph/grid.h"

#include <fmt/format.h>

#include <stdexcept>

namespace weft::graph {
namespace {

// The member of Coordinates or Grid for an axis.
template <class Axes>
auto& component(Axes& axes, Axis axis) {
  switch (axis) {
    case Axis::x:
      return axes.x;
    case Axis::y:
      return axes.y;
    case Axis::z:
      return axes.z;
    case Axis::data:
      break;
  }
  return axes.data;
}

}  // namespace

std::string_view to_string(Axis axis) {
  switch (axis) {
    case Axis::x:
      return "x";
    case Axis::y:
      return "y";
    case Axis::z:
      return "z";
    case Axis::data:
      return "data";
  }
  return "?";
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
  return fmt::format("x={},y={},z={},data={}", grid.x, grid.y, grid.z, grid.data);
}

Coordinates coordinates_of(const Grid& grid, std::int64_t rank) {
  Coordinates at;
  for (Axis axis : grid.order) {
    at.on(axis) = rank % grid.on(axis);
    rank /= grid.on(axis);
  }
  return at;
}

std::int64_t rank_of(const Grid& grid, const Coordinates& coordinates) {
  std::int64_t rank = 0, stride = 1;
  for (Axis axis : grid.order) {
    rank += coordinates.on(axis) * stride;
    stride *= grid.on(axis);
  }
  return rank;
}

std::int64_t batch_rank(const Grid& grid, const Coordinates& at) {
  return at.data * grid.z + at.z;
}

Axis axis_of(Channel channel) {
  switch (channel) {
    case Channel::x:
      return Axis::x;
    case Channel::y:
      return Axis::y;
    case Channel::z_gather:
    case Channel::z_scatter:
      return Axis::z;
    case Channel::data:
      return Axis::data;
    case Channel::world:
      break;
  }
  throw std::logic_error("the world has no axis");
}

std::int64_t group_size(const Grid& grid, Channel channel) {
  return channel == Channel::world ? grid.ranks() : grid.on(axis_of(channel));
}

std::int64_t group_color(const Grid& grid, Channel channel, std::int64_t rank) {
  if (channel == Channel::world) return 0;
  Coordinates first = coordinates_of(grid, rank);
  first.on(axis_of(channel)) = 0;
  return rank_of(grid, first);
}

}  // namespace weft::graph
