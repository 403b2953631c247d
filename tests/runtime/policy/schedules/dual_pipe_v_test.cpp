#include "runtime/policy/schedules/dual_pipe_v.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "runtime/policy/catalog/policies.h"
#include "tests/runtime/policy/pipeline/simulated_pipeline.h"

namespace weft::policy {
namespace {

// DeepSeek's table has PP virtual stages, two on each of p ranks: (PP/2 − 1)(F&B + B − 3W), with F&B = F + B where
// nothing is gained by overlap. Here B has both parts, all times are of a chunk, and tasks are short, so that the two
// of a pair end nearly together.
TEST(DualPipeV, IdlesAsPublished) {
  struct Case {
    std::int64_t p;
    double weight;
    std::int64_t pieces;
  };
  for (const Case& c : {Case{2, 1000, 120}, Case{3, 1000, 120}, Case{4, 0, 64}, Case{8, 0, 64}}) {
    const testing::PipelineToy toy(testing::shaped_for(
        "dualpipe-v", {.stages = c.p, .micro_batches = 2 * c.p, .weight = c.weight, .pieces = c.pieces}));
    const auto plans = compile(toy.classes(), *make_policy("dualpipe-v"), {.cost_model = toy.prices()});
    const double forward = 1000, backward = 1000 + c.weight;
    const double published = static_cast<double>(c.p - 1) * (forward + 2 * backward - 3 * c.weight);
    EXPECT_NEAR(testing::idle_times(toy, plans).of_step, published, 0.01 * published) << c.p;
  }
}

// PP + 1 chunks.
TEST(DualPipeV, KeepsActivationsAsPublished) {
  for (const std::int64_t p : {2, 3, 4, 8}) {
    for (const std::int64_t m : {2 * p, 3 * p + 1}) {
      const testing::PipelineToy toy(testing::shaped_for("dualpipe-v", {.stages = p, .micro_batches = m}));
      const auto plans = testing::checked_plans(toy.classes(), "dualpipe-v", {.cost_model = toy.prices()});
      EXPECT_EQ(testing::most_activations(plans),
                std::vector<std::size_t>(static_cast<std::size_t>(p), static_cast<std::size_t>(2 * p + 1)));
    }
  }
}

TEST(DualPipeV, TheTasksOfAPairAlternate) {
  const testing::PipelineToy toy(
      testing::shaped_for("dualpipe-v", {.stages = 2, .micro_batches = 4, .weight = 0, .pieces = 2}));
  const auto plans = compile(toy.classes(), *make_policy("dualpipe-v"), {.cost_model = toy.prices()});
  const std::string pair = "dualpipe-v: main part, chunk 1 forward beside chunk 2 backward 1 of 1";
  std::vector<std::string> tasks;
  for (const plan::Entry& entry : plans[0].streams.front().entries) {
    const std::string& name = plans[0].graph->task(entry.task).name;
    if (plan::to_string(plans[0].reasons[entry.reason]) == pair) tasks.push_back(name);
  }
  EXPECT_EQ(tasks, (std::vector<std::string>{"mb3.S0.fwd.p0", "mb1.S3.bwd.input.p1", "mb3.S0.fwd.p1",
                                             "mb1.S3.bwd.input.p0", "mb1.S3.bwd.weight.p1", "mb1.S3.bwd.weight.p0"}));
}

TEST(DualPipeV, RefusesFewMicroBatches) {
  const testing::PipelineToy toy(testing::shaped_for("dualpipe-v", {.stages = 4, .micro_batches = 7}));
  EXPECT_THROW(DualPipeVPolicy().orders(toy.classes(), {}), UserError);
}

}  // namespace
}  // namespace weft::policy
