#include "study/search/step_setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "ops/sharding.h"

namespace weft::study {
namespace {

std::vector<std::int64_t> divisors(std::int64_t n) {
  std::vector<std::int64_t> all;
  for (std::int64_t d = 1; d <= n; ++d) {
    if (n % d == 0) all.push_back(d);
  }
  return all;
}

std::vector<graph::Grid> grids_of(const train::RunConfig& config, std::int64_t ranks, const KeptKeys& kept,
                                  const std::vector<std::int64_t>& pipes, const Tried& tried) {
  if (kept.contains("grid"))
    return config.grid.ranks() == ranks ? std::vector{config.grid} : std::vector<graph::Grid>();
  const auto values = [](bool all, std::int64_t z) { return all ? divisors(z) : std::vector<std::int64_t>{1}; };
  std::vector<graph::Grid> grids;
  for (const std::int64_t pipe : pipes) {
    if (ranks % pipe != 0 || pipe > config.model.layers) continue;
    for (graph::Grid grid : ops::fitting_grids(config.model, ranks / pipe)) {
      grid.pipe = pipe;
      for (const std::int64_t context : values(tried.context, grid.z)) {
        if (config.seq_len % context != 0) continue;
        for (const std::int64_t expert : values(tried.expert, grid.z)) {
          grid.context = context, grid.expert = expert;
          if (context * expert == 1 || ops::fits_model(config.model, grid)) grids.push_back(grid);
        }
      }
    }
  }
  return grids;
}

std::vector<bool> values_of(bool own, bool has_effect, bool is_kept) {
  if (is_kept) return {own};
  if (has_effect) return {false, true};
  return {false};
}

/// The values of sequence-parallel for rows that a rank runs at once.
std::vector<bool> sequence_parallel_of(const train::RunConfig& config, const graph::Grid& grid, std::int64_t rows,
                                       bool tried) {
  const bool divides = rows % grid.x == 0 && rows % grid.y == 0;
  if (tried) return divides && grid.x * grid.y > 1 ? std::vector{false, true} : std::vector{false};
  if (config.sequence_parallel && !divides) return {};
  return {config.sequence_parallel};
}

std::vector<std::int64_t> micro_batches_of(const train::RunConfig& config, std::int64_t share, const KeptKeys& kept) {
  if (!kept.contains("micro-batch") || config.micro_batch == 0) return divisors(share);
  if (share % config.micro_batch != 0) return {};
  return {config.micro_batch};
}

}  // namespace

std::string to_string(const StepSetup& setup) {
  std::string text = fmt::format("{}, micro-batch {}", graph::to_string(setup.grid), setup.micro_batch);
  if (setup.grid.order != graph::kAxes) text += ", axis order " + join(axis_order(setup), ",");
  if (setup.recompute == train::Recompute::block) text += ", recompute block";
  if (setup.reshard_after_forward) text += ", reshard";
  if (setup.zero1) text += ", ZeRO-1";
  if (setup.sequence_parallel) text += ", sequence-parallel";
  return text;
}

std::string grid_text(const StepSetup& setup) {
  std::string text;
  for (const graph::Axis axis : setup.grid.order) {
    const std::int64_t size = setup.grid.on(axis);
    const auto add = [&](std::string_view name, std::int64_t number) {
      if (number > 1) text += fmt::format("{}{}={}", text.empty() ? "" : ",", name, number);
    };
    if (axis == graph::Axis::data) add(graph::to_string(graph::Axis::pipe), setup.grid.pipe);
    add(graph::to_string(axis), size);
  }
  if (setup.grid.context > 1) text += fmt::format(",context={}", setup.grid.context);
  if (setup.grid.expert > 1) text += fmt::format(",expert={}", setup.grid.expert);
  return text.empty() ? "1 rank" : text;
}

std::string options_text(const StepSetup& setup) {
  std::vector<std::string> words;
  if (setup.recompute == train::Recompute::block) words.emplace_back("recompute");
  if (setup.reshard_after_forward) words.emplace_back("reshard");
  if (setup.zero1) words.emplace_back("ZeRO-1");
  if (setup.sequence_parallel) words.emplace_back("sequence-parallel");
  return join(words);
}

std::vector<std::string> axis_order(const StepSetup& setup) {
  std::vector<std::string> order;
  for (const graph::Axis axis : setup.grid.order) order.emplace_back(graph::to_string(axis));
  return order;
}

train::RunConfig with_setup(train::RunConfig config, const StepSetup& setup) {
  config.grid = setup.grid;
  config.ranks = setup.grid.ranks();
  config.micro_batch = setup.micro_batch;
  config.recompute = setup.recompute;
  config.reshard_after_forward = setup.reshard_after_forward;
  config.zero1 = setup.zero1;
  config.sequence_parallel = setup.sequence_parallel;
  return config;
}

std::vector<train::Setting> settings_of(const StepSetup& setup, const std::string& source) {
  const auto truth = [](bool value) { return value ? "true" : "false"; };
  return {{"grid", graph::to_string(setup.grid), source},
          {"axis-order", join(axis_order(setup), ","), source},
          {"micro-batch", fmt::format("{}", setup.micro_batch), source},
          {"recompute", setup.recompute == train::Recompute::block ? "block" : "none", source},
          {"reshard-after-forward", truth(setup.reshard_after_forward), source},
          {"zero-1", truth(setup.zero1), source}};
}

StepSetup setup_of(const train::RunConfig& config) {
  return {config.grid,  config.micro_batch,      config.recompute, config.reshard_after_forward,
          config.zero1, config.sequence_parallel};
}

const std::vector<std::string>& searched_keys() {
  static const std::vector<std::string> keys = {
      "grid", "axis-order", "micro-batch", "recompute", "reshard-after-forward", "zero-1"};
  return keys;
}

std::vector<StepSetup> setups_of(const train::RunConfig& config, std::int64_t ranks, const KeptKeys& kept,
                                 const std::vector<std::int64_t>& pipes, const Tried& tried) {
  std::vector<StepSetup> choices;
  for (graph::Grid grid : grids_of(config, ranks, kept, pipes, tried)) {
    grid.order = kept.contains("axis-order") ? config.grid.order : graph::kAxes;
    if (config.global_batch % grid.batch_ranks() != 0) continue;
    const std::int64_t share = config.global_batch / grid.batch_ranks();
    for (const std::int64_t micro_batch : micro_batches_of(config, share, kept)) {
      if (grid.pipe > share / micro_batch) continue;
      const std::vector<bool> by_rows =
          sequence_parallel_of(config, grid, micro_batch * config.seq_len / grid.context, tried.sequence_parallel);
      for (const bool recompute :
           values_of(config.recompute == train::Recompute::block, true, kept.contains("recompute"))) {
        for (const bool reshard :
             values_of(config.reshard_after_forward, grid.z > 1, kept.contains("reshard-after-forward"))) {
          for (const bool zero1 : values_of(config.zero1, grid.data > 1, kept.contains("zero-1"))) {
            for (const bool rows : by_rows) {
              choices.push_back({grid, micro_batch, recompute ? train::Recompute::block : train::Recompute::none,
                                 reshard, zero1, rows});
            }
          }
        }
      }
    }
  }
  return choices;
}

std::vector<AxisOrder> axis_orders(const graph::Grid& grid) {
  std::vector<AxisOrder> orders;
  AxisOrder order = graph::kAxes;
  do {
    AxisOrder next = graph::kAxes;
    auto place = next.begin();
    const auto is_narrow = [&](graph::Axis axis) { return grid.on(axis) == 1; };
    for (const graph::Axis axis : order) {
      if (is_narrow(axis)) continue;
      place = std::find_if_not(place, next.end(), is_narrow);
      *place++ = axis;
    }
    if (std::ranges::find(orders, next) == orders.end()) orders.push_back(next);
  } while (std::ranges::next_permutation(order).found);
  return orders;
}

std::int64_t nearest_ranks(const train::RunConfig& config, std::int64_t ranks, const KeptKeys& kept) {
  for (std::int64_t distance = 1; distance <= ranks; ++distance) {
    for (const std::int64_t other : {ranks - distance, ranks + distance}) {
      if (other > 0 && !setups_of(config, other, kept).empty()) return other;
    }
  }
  return 0;
}

}  // namespace weft::study
