#include "runtime/cost/kind_slowdowns.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace weft::cost {

KindSlowdowns::KindSlowdowns(const graph::Graph& graph, const Machine* machine) : kind_(graph.tasks().size()) {
  std::vector<std::string_view> names;
  for (const bool collectives : {true, false}) {
    std::map<std::string_view, std::uint32_t> numbers;
    for (std::size_t i = 0; i < kind_.size(); ++i) {
      const graph::Operation& operation = graph.tasks()[i].operation;
      if (graph::is_collective(operation) != collectives) continue;
      const auto [found, is_new] =
          numbers.emplace(graph::kind_name(operation), static_cast<std::uint32_t>(names.size()));
      if (is_new) names.push_back(found->first);
      kind_[i] = found->second;
    }
    if (collectives) collectives_ = names.size();
  }
  if (machine == nullptr || machine->slowdowns.empty()) return;
  for (const std::string_view name : names) {
    for (std::size_t c = 0; c < collectives_; ++c) factors_.push_back(machine->slowdown(name, names[c]));
  }
  if (std::ranges::all_of(factors_, [](double factor) { return factor == 1; })) factors_.clear();
}

}  // namespace weft::cost
