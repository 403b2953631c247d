// What if some tasks took another time: costs multiplied by factors, by patterns of operations' and tasks' names.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cost/costs.h"

namespace weft::cost {

/// A factor for the names that a pattern matches. A task takes `factor` times as long if the pattern matches its own
/// name or its operation's name; the network of a channel (runtime/cost/recorded_costs.h) is `factor` times as fast.
struct NamedFactor {
  std::string pattern;  // with * for any text
  double factor = 1;
};

/// "gemm*=0.8", or a factor alone for everything; nullopt of text of another form and of factors that are negative or
/// above 1e6.
std::optional<NamedFactor> parse_named_factor(std::string_view text);

/// The same, but the text must name a pattern. Throws UserError in place of nullopt.
NamedFactor parse_cost_scale(std::string_view text);

/// Whether the whole of `name` matches; * stands for any text, "" too.
bool matches_pattern(std::string_view pattern, std::string_view name);

/// The model's costs, scaled one after the other: all times of a task equally. costs() throws UserError on a pattern
/// that matches no task of the graph.
std::shared_ptr<const CostModel> scaled_costs(std::shared_ptr<const CostModel> model, std::vector<NamedFactor> scales);

}  // namespace weft::cost
