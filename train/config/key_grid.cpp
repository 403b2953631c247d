// The keys of the ranks: how many, along which axes, in which order.
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
  const MemberForm form{names_of(kSizedAxes), "axis", "an axis and its size",
                        "axes of x, y, z, pipe and data with their sizes, as in \"data=2\" or \"x=2,data=4\"",
                        "data=2"};
  graph::Grid grid;
  grid.order = config.grid.order;
  for (const Member& member : members_of(value, where, form)) {
    const auto axis =
        std::ranges::find(kSizedAxes, member.name, [](graph::Axis each) { return graph::to_string(each); });
    grid.on(*axis) = parse_number<std::int64_t>(member.value, fmt::format("{}: {}", where, member.name), 1, 65536);
  }
  config.grid = grid;
}

std::string grid_text(const RunConfig& config) {
  return config.grid_auto ? std::string(kAuto) : graph::to_string(config.grid);
}

void set_axis_order(RunConfig& config, std::string_view value, std::string_view where) {
  const std::vector<std::string> names = names_of(graph::kAxes);
  const std::vector<std::string_view> given = parts_of(value, ',');
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
  return join(names_of(config.grid.order), ",");
}

}  // namespace

ConfigKey ranks_key() {
  ConfigKey entry = integer_key(
      "ranks", "how many ranks to start as threads of this process; 0: as many as the grid has, or as mpirun started",
      &RunConfig::ranks, 0, 1 << 20);
  entry.set = [set = entry.set](RunConfig& config, std::string_view value, std::string_view where) {
    const std::int64_t before = config.ranks;
    set(config, value, where);
    if (config.ranks != before) config.grid.data = 1;
  };
  return entry;
}

ConfigKey grid_key() {
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

ConfigKey axis_order_key() {
  return {"axis-order",   ValueKind::text, "text", "the order of the axes: neighbouring ranks differ in the first",
          set_axis_order, axis_order_text};
}

ConfigKey stages_key() {
  return {"stages",
          ValueKind::text,
          "text",
          "layers of each pipeline stage in turn, as in 7,8,8,9; empty: the division with the shortest longest stage",
          [](RunConfig& config, std::string_view value, std::string_view where) {
            if (value.empty()) return config.stages.clear();
            std::vector<std::int64_t> layers;
            for (const std::string_view part : parts_of(value, ','))
              layers.push_back(parse_number<std::int64_t>(part, where, 1, 65536));
            config.stages = std::move(layers);
          },
          [](const RunConfig& config) { return fmt::format("{}", fmt::join(config.stages, ",")); }};
}

ConfigKey pipe_chunks_key() {
  return integer_key("pipe-chunks",
                     "pipeline stages that each rank has (virtual stages); 0: as many as the policy wants, which is 1 "
                     "but for interleaved, zb-v and dualpipe-v",
                     &RunConfig::pipe_chunks, 0, 64);
}

}  // namespace weft::train
