#include "train/config/key_grid.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "train/config/key_kinds.h"

namespace weft::train {

namespace {

constexpr std::string_view kAuto = "auto";

constexpr std::array kSizedAxes = {graph::Axis::x, graph::Axis::y, graph::Axis::z, graph::Axis::data,
                                   graph::Axis::pipe};

std::vector<std::string> names_of(std::span<const graph::Axis> axes) {
  std::vector<std::string> names;
  for (const graph::Axis axis : axes) names.emplace_back(graph::to_string(axis));
  return names;
}

void set_grid(RunConfig& config, std::string_view value, std::string_view where) {
  config.grid_auto = value == kAuto;
  if (config.grid_auto) return;  // the axes that were there say how many ranks, where nothing else does
  graph::Grid grid;
  grid.order = config.grid.order;
  const std::vector<std::string> axes = names_of(kSizedAxes);
  constexpr std::string_view expected =
      "axes of x, y, z, pipe and data with their sizes, as in \"data=2\" or \"x=2,data=4\"";
  std::vector<bool> given(axes.size(), false);
  while (!value.empty()) {
    const std::size_t comma = std::min(value.find(','), value.size());
    const std::string_view part = value.substr(0, comma);
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) {
      throw UserError(fmt::format("{}: \"{}\" is not an axis and its size", where, part), expected,
                      "write it as in data=2");
    }
    const std::string_view name = part.substr(0, equals);
    const auto axis = std::find(axes.begin(), axes.end(), name);
    if (axis == axes.end()) {
      const std::string nearest = nearest_name(name, axes);
      throw UserError(fmt::format("{}: unknown axis \"{}\"", where, name), expected,
                      nearest.empty() ? "write it as in data=2" : fmt::format("did you mean \"{}\"?", nearest));
    }
    const auto index = static_cast<std::size_t>(axis - axes.begin());
    if (given[index])
      throw UserError(fmt::format("{}: axis {} is given twice", where, name), expected, "leave one out");
    given[index] = true;
    grid.on(kSizedAxes.at(index)) =
        parse_number<std::int64_t>(part.substr(equals + 1), fmt::format("{}: {}", where, name), 1, 65536);
    value.remove_prefix(std::min(comma + 1, value.size()));
  }
  config.grid = grid;
}

std::string grid_text(const RunConfig& config) {
  return config.grid_auto ? std::string(kAuto) : graph::to_string(config.grid);
}

void set_axis_order(RunConfig& config, std::string_view value, std::string_view where) {
  const std::vector<std::string> names = names_of(graph::kAxes);
  std::vector<std::string> given;
  for (std::string_view rest = value;;) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    given.emplace_back(rest.substr(0, comma));
    if (comma == rest.size()) break;
    rest.remove_prefix(comma + 1);
  }
  if (!std::is_permutation(given.begin(), given.end(), names.begin(), names.end())) {
    throw UserError(fmt::format("{} = \"{}\" isn't an order of the axes", where, value),
                    "x, y, z and data, each once; neighbouring ranks differ in the first", "x,y,z,data is the default");
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    const auto place = std::find(names.begin(), names.end(), given[i]) - names.begin();
    config.grid.order.at(i) = graph::kAxes.at(static_cast<std::size_t>(place));
  }
}

std::string axis_order_text(const RunConfig& config) {
  std::vector<std::string_view> names;
  for (const graph::Axis axis : config.grid.order) names.push_back(graph::to_string(axis));
  return fmt::format("{}", fmt::join(names, ","));
}

}  // namespace

ConfigEntry ranks_key() {
  ConfigEntry entry = integer_key(
      "ranks", "how many ranks to start as threads of this process; 0: as many as the grid has, or as mpirun started",
      &RunConfig::ranks, 0, 1 << 20);
  entry.set = [set = entry.set](RunConfig& config, std::string_view value, std::string_view where) {
    const std::int64_t before = config.ranks;
    set(config, value, where);
    if (config.ranks != before) config.grid.data = 1;
  };
  return entry;
}

ConfigEntry grid_key() {
  return {
      "grid",
      ValueKind::text,
      "text",
      "ranks along each axis, as in x=2,z=2,data=2: x, y and z cut matrices, pipe cuts layers, z and data cut the "
      "batch. An axis that is left out is 1; data takes the ranks that the others leave. auto, for `weft train` alone: "
      "the fastest grid "
      "that `weft search` finds, with axis-order, micro-batch, recompute, reshard-after-forward and zero-1 as far as "
      "they aren't set",
      set_grid,
      grid_text};
}

ConfigEntry axis_order_key() {
  return {"axis-order",   ValueKind::text, "text", "the order of the axes: neighbouring ranks differ in the first",
          set_axis_order, axis_order_text};
}

ConfigEntry stages_key() {
  return {"stages",
          ValueKind::text,
          "text",
          "layers of each pipeline stage in turn, as in 7,8,8,9; empty: the division with the shortest longest stage",
          [](RunConfig& config, std::string_view value, std::string_view where) {
            std::vector<std::int64_t> layers;
            while (!value.empty()) {
              const std::size_t comma = std::min(value.find(','), value.size());
              layers.push_back(parse_number<std::int64_t>(value.substr(0, comma), where, 1, 65536));
              value.remove_prefix(std::min(comma + 1, value.size()));
            }
            config.stages = std::move(layers);
          },
          [](const RunConfig& config) { return fmt::format("{}", fmt::join(config.stages, ",")); }};
}

ConfigEntry pipe_chunks_key() {
  return integer_key("pipe-chunks",
                     "pipeline stages that each rank has (virtual stages); 0: as many as the policy wants, which is 1 "
                     "but for interleaved, zb-v and dualpipe-v",
                     &RunConfig::pipe_chunks, 0, 64);
}

}  // namespace weft::train
