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
inline Plan sample_plan() {
  GraphBuilder builder(Arguments::of_any_form);
  const auto tensor = [&](std::string name) {
    return whole(builder, builder.add_tensor({std::move(name), DType::f32, {4}, Role::activation}));
  };
  const View x = tensor("x"), y = tensor("y"), z = tensor("z");
  const TaskId a = builder.add_task({"mb0.L1.a \"<&>\"", Gemm{1, 4, 1}, {write(x)}, 1, 0});
  const TaskId b = builder.add_task({"b", SelectRow{1, 4}, {write(z)}});
  const TaskId r = builder.add_task({"r", AllReduce{Channel::data, 2, 4}, {read_write(x)}, -1, -1, Phase::backward});
  const TaskId c = builder.add_task({"c", GeluForward{4}, {read(x), write(y)}, -1, -1, Phase::update});
  const TaskId s = builder.add_task({"s", AllReduce{Channel::data, 2, 4}, {read_write(y)}});
  Plan plan;
  plan.graph = std::make_shared<const Graph>(std::move(builder).build());
  plan.policy = "by <hand>";
  plan.reasons = {parse_reason(""), parse_reason("as early as possible")};
  const StreamId first(0), data(2);
  plan.sequence = {a, b, r, c, s};
  plan.position = {{first, 0}, {StreamId(1), 0}, {data, 0}, {first, 1}, {data, 1}};
  plan.added_edges = {{s, a, EdgeKind::completes_before, EdgeReason::policy, 1, {}}};
  plan.streams = {{{"compute0", true, Channel::world}, {{a, {{data, 1, 1}}, true, 1}, {c, {{data, 0, 0}}, true, 0}}},
                  {{"compute1", true, Channel::world}, {{b, {}, false, 0}}},
                  {{"data", false, Channel::data}, {{r, {{first, 0, 0}}, true, 0}, {s, {{first, 1, 0}}, true, 0}}}};
  return plan;
}

/// Nanoseconds, `scale` for each unit of the picture above.
inline StepTrace sample_step(std::int64_t step, std::int64_t begin, std::int64_t scale) {
  const auto at = [&](std::int64_t from, std::int64_t to) {
    return TaskTime{begin + from * scale, begin + to * scale};
  };
  return {step, begin, begin + 100 * scale, {{at(0, 40), at(60, 80)}, {at(30, 50)}, {at(40, 70), at(75, 100)}}};
}

}  // namespace weft::testing_sample
