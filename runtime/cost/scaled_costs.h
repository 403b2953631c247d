// What if some tasks took another time: costs multiplied by factors, by patterns of operations' and tasks' names.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cost/costs.h"

namespace weft::cost {

/// Tasks whose operation or whose own name matches the pattern take `factor` times as long.
struct CostScale {
  std::string pattern;  // with * for any text
  double factor = 1;
};

/// "gemm*=0.8". Throws UserError on text of another form and on factors that are negative or above 1e6.
CostScale parse_cost_scale(std::string_view text);

/// Whether the whole of `name` matches; * stands for any text, "" too.
bool matches_pattern(std::string_view pattern, std::string_view name);

/// The model's costs, scaled one after the other: all times of a task equally. costs() throws UserError on a pattern
/// that matches no task of the graph.
std::shared_ptr<const CostModel> scaled_costs(std::shared_ptr<const CostModel> model, std::vector<CostScale> scales);

}  // namespace weft::cost
