// The operation and the policy that CONTRIBUTING.md shows: each block of C++ there stands in this file, word for word.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/operations/schema.h"
#include "kernels/cpu/chunks.h"
#include "kernels/cpu/simd.h"
#include "runtime/execute/task_arguments.h"
#include "runtime/policy/pipeline/joint_orders.h"
#include "runtime/policy/policy.h"
#include "runtime/policy/scheduling/program_order.h"

namespace weft::graph {

/// y = x².
struct Square : ElementCount {
  static constexpr std::string_view kind = "square";
  constexpr auto arguments() const {
    return std::array{reads("x", any_shape(n), kFloat), writes("y", any_shape(n), same_as("x"))};
  }
  constexpr Work work(double element_bytes) const { return each(n, 1, 2 * element_bytes); }
};

}  // namespace weft::graph

namespace weft::cpu {

inline void square(Workers& workers, const Matrix& x, const Matrix& y) {
  const auto piece = [](std::int64_t n, const auto* from, auto* to) {
    transform(
        n, to, [](Floats value) { return value * value; }, from);
  };
  for_elements(workers, piece, x, y);
}

}  // namespace weft::cpu

namespace weft::execute {

template <class Where>
struct SquareCalls {
  Where& where;

  void operator()(Call<graph::Square> c) const { square(where, c["x"], c["y"]); }
};

}  // namespace weft::execute

namespace weft::policy {

/// Program order, but sums over the data axis come after the rest of the backward pass.
class LateSumsPolicy final : public Policy {
 public:
  std::string name() const override { return "late-sums"; }
  std::vector<plan::Order> orders(graph::Classes classes, const PolicyOptions& options) const override {
    std::vector<plan::Order> orders;
    for (const auto& graph : classes) {
      graph::TaskId last;  // of the backward pass
      for (std::size_t i = 0; i < graph->tasks().size(); ++i) {
        if (graph->tasks()[i].phase == graph::Phase::backward) last = graph::TaskId(i);
      }
      ReorderedProgram reordered(*graph);
      for (std::size_t i = 0; i < graph->tasks().size(); ++i) {
        if (is_data_reduction(graph->tasks()[i])) reordered.behind(graph::TaskId(i), last);
      }
      orders.push_back(program_order(*graph, options, reordered.sequence()));
    }
    return joined_orders(classes, std::move(orders), options);
  }
};

}  // namespace weft::policy
