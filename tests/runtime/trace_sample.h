// A hand-made plan and step for the tests of traces and timelines: two compute streams and one for gradients.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "runtime/plan/plan.h"
#include "runtime/plan/trace.h"

namespace weft::testing_sample {

///   compute0   a [0,40)         c [60,80)
///   compute1        b [30,50)
///   data            r [40,70)          s [75,100)      with r waiting for a, c for r, a for the last step's s
inline plan::Plan sample_plan() {
  graph::GraphBuilder builder(graph::Arguments::of_any_form);
  const auto tensor = [&](std::string name) {
    return graph::whole(builder, builder.add_tensor({std::move(name), DType::f32, {4}, graph::Role::activation}));
  };
  const graph::View x = tensor("x"), y = tensor("y"), z = tensor("z");
  const graph::TaskId a = builder.add_task({"mb0.L1.a \"<&>\"", graph::Gemm{1, 4, 1}, {graph::write(x)}, 1, 0});
  const graph::TaskId b = builder.add_task({"b", graph::SelectRow{1, 4}, {graph::write(z)}});
  const graph::TaskId r = builder.add_task(
      {"r", graph::AllReduce{graph::Channel::data, 2, 4}, {graph::read_write(x)}, -1, -1, graph::Phase::backward});
  const graph::TaskId c =
      builder.add_task({"c", graph::GeluForward{4}, {graph::read(x), graph::write(y)}, -1, -1, graph::Phase::update});
  const graph::TaskId s = builder.add_task({"s", graph::AllReduce{graph::Channel::data, 2, 4}, {graph::read_write(y)}});
  plan::Plan plan;
  plan.graph = std::make_shared<const graph::Graph>(std::move(builder).build());
  plan.policy = "by <hand>";
  plan.reasons = {{.text = ""}, {.text = "as early as possible"}};
  const plan::StreamId first(0), data(2);
  plan.sequence = {a, b, r, c, s};
  plan.position = {{first, 0}, {plan::StreamId(1), 0}, {data, 0}, {first, 1}, {data, 1}};
  plan.added_edges = {{s, a, graph::EdgeKind::completes_before, graph::EdgeReason::policy, 1, {}}};
  plan.streams = {
      {{"compute0", true, graph::Channel::world}, {{a, {{data, 1, 1}}, true, 1}, {c, {{data, 0, 0}}, true, 0}}},
      {{"compute1", true, graph::Channel::world}, {{b, {}, false, 0}}},
      {{"data", false, graph::Channel::data}, {{r, {{first, 0, 0}}, true, 0}, {s, {{first, 1, 0}}, true, 0}}}};
  return plan;
}

/// Nanoseconds, `scale` for each unit of the picture above.
inline plan::StepTrace sample_step(std::int64_t step, std::int64_t begin, std::int64_t scale) {
  const auto at = [&](std::int64_t from, std::int64_t to) {
    return plan::TaskTime{begin + from * scale, begin + to * scale};
  };
  return {step, begin, begin + 100 * scale, {{at(0, 40), at(60, 80)}, {at(30, 50)}, {at(40, 70), at(75, 100)}}};
}

}  // namespace weft::testing_sample
