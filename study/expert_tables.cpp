#include "study/expert_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>

#include "inspect/drawing/expert_chart.h"

namespace weft::study {
namespace {

/// Tokens of each expert as multiples of their mean.
std::vector<double> multiples_of_mean(const train::LayerLoad& layer) {
  const auto sum = std::accumulate(layer.tokens.begin(), layer.tokens.end(), std::int64_t{0});
  std::vector<double> loads;
  for (const std::int64_t tokens : layer.tokens) {
    loads.push_back(sum == 0 ? 0
                             : static_cast<double>(tokens) * static_cast<double>(layer.tokens.size()) /
                                   static_cast<double>(sum));
  }
  return loads;
}

inspect::ExpertChart chart_of_loads(const std::vector<train::ExpertLoad>& loads) {
  inspect::ExpertChart chart;
  for (const train::LayerLoad& layer : loads.front().layers) chart.fields.push_back({.layer = layer.layer});
  for (const train::ExpertLoad& load : loads) {
    chart.steps.push_back(load.last_step);
    for (std::size_t i = 0; i < chart.fields.size(); ++i) {
      chart.fields[i].loads.push_back(multiples_of_mean(load.layers[i]));
    }
  }
  return chart;
}

std::string margin_text(const train::ExpertLoad& all, std::size_t layer) {
  const float margin = all.layers[layer].margin;
  return margin == train::LayerLoad().margin ? "-" : fmt::format("{:.2g}", margin);
}

}  // namespace

std::optional<inspect::ReportTable> experts_table(const std::vector<train::ExpertLoad>& loads, bool replayed) {
  if (loads.empty()) return std::nullopt;
  const inspect::ExpertChart chart = chart_of_loads(loads);
  train::ExpertLoad all;
  for (const train::ExpertLoad& load : loads) all.add(load);
  inspect::ReportTable table{
      .title = "Experts",
      .note =
          "Tokens of each expert, as a multiple of the mean over its layer's experts. The margin is the least "
          "difference between the logits of the last expert that a token took by its logits and the first that it "
          "didn't: a run on another grid, whose logits round otherwise, may choose otherwise where it is as small.",
      .heads = {"layer", "busiest, all steps", "times the mean", "busiest at the end", "times the mean"}};
  for (const char* head : {"idlest at the end", "times the mean", "least margin"}) table.heads.emplace_back(head);
  table.picture = "<div>" + inspect::expert_picture(chart).svg() + "</div>\n";
  if (replayed) table.heads.emplace_back("flips");
  const auto cells = [](std::vector<inspect::ReportCell>& row, const std::vector<double>& of, auto place) {
    row.emplace_back(fmt::format("{}", place - of.begin()));
    row.emplace_back(fmt::format("{:.2f}", *place));
  };
  for (std::size_t i = 0; i < all.layers.size(); ++i) {
    const std::vector<double> sum = multiples_of_mean(all.layers[i]);
    const std::vector<double>& end = chart.fields[i].loads.back();
    std::vector<inspect::ReportCell>& row = table.rows.emplace_back();
    row.emplace_back(fmt::format("{}", all.layers[i].layer));
    cells(row, sum, std::ranges::max_element(sum));
    cells(row, end, std::ranges::max_element(end));
    cells(row, end, std::ranges::min_element(end));
    row.emplace_back(margin_text(all, i));
    if (replayed) row.emplace_back(fmt::format("{}", all.layers[i].flips));
  }
  return table;
}

}  // namespace weft::study
