#include "tools/input/scaled_problem.h"

#include <string>

namespace weft::tools {

CommandOption scale_option(std::vector<cost::CostScale>& scales) {
  return {.names = "--scale",
          .target = [&scales](const std::string& value) { scales.push_back(cost::parse_cost_scale(value)); },
          .value = "PATTERN=FACTOR",
          .help =
              "what if tasks took so many times as long: 'gemm*=0.8'; by operation or name ('mb*.L3.*=2'); may be "
              "repeated",
          .arity = Arity::each};
}

void scale_costs(simulate::Problem& problem, const std::vector<cost::CostScale>& scales) {
  if (scales.empty()) return;
  problem.options.cost_model = cost::scaled_costs(problem.options.cost_model, scales);
  for (const auto& graph : problem.classes) (void)problem.options.cost_model->costs(*graph);
}

}  // namespace weft::tools
