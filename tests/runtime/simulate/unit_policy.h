// Reports on pipelines of the toy under an order that a test writes by units.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/simulate/report.h"
#include "tests/runtime/pipeline_toy.h"

namespace weft::testing {

inline simulate::Problem joint_problem(const PipelineToy& toy) {
  simulate::Problem problem;
  problem.classes = toy.classes();
  problem.grid = toy.grid();
  problem.options.cost_model = toy.prices();
  return problem;
}

/// Orders each rank by the units that a function lists.
class UnitPolicy final : public policy::Policy {
 public:
  using Units = std::function<std::vector<PipelineUnit>(const PipelineToy&, std::int64_t)>;
  UnitPolicy(const PipelineToy& toy, Units units) : toy_(toy), units_(std::move(units)) {}
  std::string name() const override { return "by units"; }
  std::vector<plan::Order> orders(graph::Classes classes, const policy::PolicyOptions&) const override {
    std::vector<plan::Order> orders;
    for (std::size_t k = 0; k < classes.size(); ++k)
      orders.push_back(order_of_units(*classes[k], units_(toy_, static_cast<std::int64_t>(k))));
    return orders;
  }

 private:
  PipelineToy toy_;
  Units units_;
};

inline policy::NamedPolicy unit_policy(const PipelineToy& toy, UnitPolicy::Units units) {
  return {"by units", std::make_shared<const UnitPolicy>(toy, std::move(units))};
}

}  // namespace weft::testing
