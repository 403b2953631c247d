#include "runtime/cost/scaled_costs.h"

#include <fmt/format.h>

#include <cstddef>
#include <utility>

#include "base/error.h"
#include "base/units.h"

namespace weft::cost {
namespace {

constexpr double kGreatestFactor = 1e6;

class ScaledCosts final : public CostModel {
 public:
  ScaledCosts(std::shared_ptr<const CostModel> model, std::vector<NamedFactor> scales)
      : model_(std::move(model)), scales_(std::move(scales)) {}

  TaskCosts costs(const graph::Graph& graph) const override {
    TaskCosts costs = model_->costs(graph);
    for (const NamedFactor& scale : scales_) apply(scale, graph, costs);
    return costs;
  }

  std::string source() const override {
    std::string text = model_->source();
    for (const NamedFactor& scale : scales_) text += fmt::format(", {} × {}", scale.pattern, scale.factor);
    return text;
  }

 private:
  static void apply(const NamedFactor& scale, const graph::Graph& graph, TaskCosts& costs) {
    bool found = false;
    for (std::size_t i = 0; i < graph.tasks().size(); ++i) {
      const graph::Task& task = graph.tasks()[i];
      if (!matches_pattern(scale.pattern, graph::kind_name(task.operation)) &&
          !matches_pattern(scale.pattern, task.name)) {
        continue;
      }
      found = true;
      for (std::vector<double>* times : {&costs.ns, &costs.cpu_ns, &costs.beside_ns, &costs.link_ns}) {
        if (!times->empty()) (*times)[i] *= scale.factor;
      }
    }
    if (found) return;
    throw UserError(fmt::format("--scale {}: no operation and no task of the step has such a name", scale.pattern),
                    "an operation, such as gemm, or a task's name, with * for any text",
                    "weft graph … -o tasks.json lists both");
  }

  std::shared_ptr<const CostModel> model_;
  std::vector<NamedFactor> scales_;
};

}  // namespace

std::optional<NamedFactor> parse_named_factor(std::string_view text) {
  const std::size_t equals = text.rfind('='), number = equals == std::string_view::npos ? 0 : equals + 1;
  const double factor = number_in<double>(text.substr(number)).value_or(-1);
  NamedFactor scale{number == 0 ? "*" : std::string(text.substr(0, equals)), factor};
  if (scale.pattern.empty() || !(factor >= 0 && factor <= kGreatestFactor)) return std::nullopt;
  return scale;
}

NamedFactor parse_cost_scale(std::string_view text) {
  const std::optional<NamedFactor> scale = parse_named_factor(text);
  if (scale && text.find('=') != std::string_view::npos) return *scale;
  throw UserError(fmt::format("--scale {}", text), "a pattern and a factor from 0 to 1000000", "--scale 'gemm*=0.8'");
}

bool matches_pattern(std::string_view pattern, std::string_view name) {
  // On a mismatch, the last * takes one byte more.
  std::size_t p = 0, n = 0, star = std::string_view::npos, taken = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++taken;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

std::shared_ptr<const CostModel> scaled_costs(std::shared_ptr<const CostModel> model, std::vector<NamedFactor> scales) {
  if (scales.empty()) return model;
  return std::make_shared<const ScaledCosts>(std::move(model), std::move(scales));
}

}  // namespace weft::cost
