#include "runtime/policy/schedules/published.h"

#include <gtest/gtest.h>

#include <optional>

#include "base/error.h"
#include "runtime/policy/catalog/policies.h"
#include "tests/base/messages.h"
#include "tests/runtime/policy/pipeline/simulated_pipeline.h"

namespace weft::policy {
namespace {

TEST(ScheduleWriter, CountsUnitsByChunkAndNamesTheirParts) {
  const PipelineShape shape{.ranks = 3, .chunks = {2, graph::ChunkPlacement::v}, .micro_batches = 2};
  static constexpr plan::ReasonTable kReasons = schedule_reasons("mine");
  ScheduleWriter writer(kReasons, shape, 1);
  writer.begin(Part::warm_up);
  writer.forward(0);
  writer.forward(1);
  writer.begin(Part::steady);
  writer.forward_beside_backward(0, 1);
  writer.input(1);
  EXPECT_EQ(writer.count(Work::input, 1), 2);
  EXPECT_EQ(writer.count(Work::weight, 1), 1);
  writer.forward(0);  // of micro-batch 2, which the program doesn't have
  const RankSchedule schedule = writer.take();
  ASSERT_EQ(schedule.size(), 4U);
  EXPECT_EQ(schedule[0].unit, (Unit{Work::forward, 0, 1}));
  EXPECT_EQ(schedule[1].unit, (Unit{Work::forward, 0, 4}));
  EXPECT_EQ(schedule[2].unit, (Unit{Work::forward, 1, 1}));
  EXPECT_EQ(schedule[2].beside, (Unit{Work::backward, 0, 4}));
  EXPECT_EQ(schedule[3].unit, (Unit{Work::input, 1, 4}));
  EXPECT_EQ(to_string(schedule[1].reason), "mine: warm-up, chunk 2 forward 1 of 1");
  EXPECT_EQ(to_string(schedule[2].reason), "mine: steady, chunk 1 forward beside chunk 2 backward 1 of 1");
}

using Strings = std::vector<std::string>;

TEST(Published, TheUnitsOfARank) {
  const std::pair<const char*, Strings> cases[] = {
      {"gpipe",
       {"gpipe: all forward first, forward 1 of 3", "gpipe: all forward first, forward 2 of 3",
        "gpipe: all forward first, forward 3 of 3", "gpipe: all backward last, backward 1 of 3",
        "gpipe: all backward last, backward 2 of 3", "gpipe: all backward last, backward 3 of 3"}},
      {"1f1b",
       {"1f1b: warm-up, forward 1 of 1", "1f1b: steady, forward 1 of 2", "1f1b: steady, backward 1 of 2",
        "1f1b: steady, forward 2 of 2", "1f1b: steady, backward 2 of 2", "1f1b: cool-down, backward 1 of 1"}},
      {"zb-h1",
       {"zb-h1: warm-up, forward 1 of 1", "zb-h1: steady, forward 1 of 2",
        "zb-h1: steady, backward for the input 1 of 2", "zb-h1: steady, forward 2 of 2",
        "zb-h1: steady, backward for the input 2 of 2", "zb-h1: steady, backward for weights 1 of 1",
        "zb-h1: cool-down, backward for the input 1 of 1", "zb-h1: cool-down, backward for weights 1 of 1",
        "zb-h1: at the end, backward for weights 1 of 1"}},
  };
  for (auto [name, units] : cases) {
    units.emplace_back("after the last micro-batch, in program order");
    EXPECT_EQ(testing::reasons_of(testing::ScheduledToy(name, {.stages = 3, .micro_batches = 3}).plans[1]), units);
  }
}

// As published.h says. Where the whole backward pass runs in program order, its part for weights takes no time here: a
// toy sends its gradient before that part. DualPipeVIdlesAsPublished has the idle time of dualpipe-v.
TEST(Published, IdleAndKeepActivationsAsPublished) {
  struct Case {
    const char* name;
    double input, weight;        // a forward pass takes 1000
    std::int64_t fewest;         // micro-batches for each rank
    std::optional<double> idle;  // of the step, for each rank but one
    bool busy;                   // no rank idles between its first unit and its last
    std::int64_t (*kept)(std::int64_t p, std::int64_t m, std::int64_t rank);
  };
  using Count = std::int64_t;
  for (const Case& c :
       {Case{"gpipe", 1900, 0, 1, 2900, false, [](Count, Count m, Count) { return m; }},
        Case{"1f1b", 1900, 0, 1, 2900, false, [](Count p, Count, Count rank) { return p - rank; }},
        Case{"zb-h1", 1200, 800, 1, 1400, false, [](Count p, Count, Count) { return p; }},
        Case{"zb-v", 1000, 1000, 2, 1000, true, [](Count p, Count, Count) { return 2 * p; }},
        Case{"dualpipe-v", 1000, 1000, 2, {}, false, [](Count p, Count, Count) { return 2 * p + 1; }}}) {
    for (const std::int64_t p : {2, 3, 4, 8}) {
      for (const std::int64_t m : {c.fewest * p, (c.fewest + 1) * p + 1}) {
        SCOPED_TRACE(std::string(c.name) + ", ranks " + std::to_string(p) + ", micro-batches " + std::to_string(m));
        const testing::ScheduledToy done(c.name,
                                         {.stages = p, .micro_batches = m, .input = c.input, .weight = c.weight});
        const testing::IdleTimes idle = done.idle();
        if (c.idle) {
          EXPECT_EQ(idle.of_step, static_cast<double>(p - 1) * *c.idle);
        }
        if (c.busy) {
          EXPECT_EQ(idle.of_ranks, 0);
        }
        for (std::int64_t rank = 0; rank < p; ++rank) {
          EXPECT_EQ(testing::most_activations(done.plans[static_cast<std::size_t>(rank)]),
                    static_cast<std::size_t>(c.kept(p, m, rank)));
        }
      }
    }
  }
}

// (p − 1)(F + B)/v, with F and B of all v chunks. Rank k keeps the forward passes of its warm-up and one more.
TEST(Published, InterleavedIdlesAndKeepsActivationsAsPublished) {
  for (const auto& [name, v] : {std::pair("interleaved", 2), std::pair("interleaved:chunks=4", 4)}) {
    for (const std::int64_t p : {2, 3, 4, 8}) {
      SCOPED_TRACE(name + (", ranks " + std::to_string(p)));
      const testing::ScheduledToy done(
          name, {.stages = p, .micro_batches = 2 * p, .forward = 1200.0 / v, .input = 1600.0 / v, .weight = 0});
      EXPECT_EQ(done.idle().of_step, static_cast<double>(p - 1) * 2800 / v);
      for (std::int64_t rank = 0; rank < p; ++rank) {
        EXPECT_EQ(testing::most_activations(done.plans[static_cast<std::size_t>(rank)]),
                  static_cast<std::size_t>(2 * (p - rank - 1) + (v - 1) * p + 1));
      }
    }
  }
}

// A backward pass sends the gradient of its input as soon as that is there: the next rank doesn't wait for gradients of
// weights that come later in the program.
TEST(Published, AGradientLeavesAsEarlyAsTheProgramHasIt) {
  const testing::ScheduledToy done("1f1b", {.stages = 4, .micro_batches = 8, .weight = 900});
  EXPECT_EQ(done.idle().of_step, 3 * 2000);
}

TEST(Published, ZbVTakesAnyNumberOfMicroBatches) {
  for (std::int64_t m = 1; m <= 8; ++m) testing::ScheduledToy("zb-v", {.stages = 4, .micro_batches = m});
}

// DeepSeek's table, with F&B = F + B where nothing is gained by overlap. Here B has both parts, all times are of a
// chunk, and tasks are short, so that the two of a pair end nearly together.
TEST(Published, DualPipeVIdlesAsPublished) {
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

TEST(Published, TheTasksOfAPairAlternate) {
  const testing::ScheduledToy done("dualpipe-v", {.stages = 2, .micro_batches = 4, .weight = 0, .pieces = 2});
  const std::string pair = "dualpipe-v: main part, chunk 1 forward beside chunk 2 backward 1 of 1";
  Strings tasks;
  for (const plan::Entry& entry : done.plans[0].streams.front().entries) {
    if (plan::to_string(done.plans[0].reasons[entry.reason]) == pair)
      tasks.push_back(done.plans[0].graph->task(entry.task).name);
  }
  EXPECT_EQ(tasks, (Strings{"mb3.S0.fwd.p0", "mb1.S3.bwd.input.p1", "mb3.S0.fwd.p1", "mb1.S3.bwd.input.p0",
                            "mb1.S3.bwd.weight.p1", "mb1.S3.bwd.weight.p0"}));
}

TEST(Published, RefuseShapesThatTheyDontTake) {
  const auto refusal = [](const char* name, const testing::PipelineShape& shape) {
    return testing::message_of<UserError>([&] {
      const testing::PipelineToy toy(shape);
      (void)make_policy(name)->orders(toy.classes(), {});
    });
  };
  const graph::PipelineChunks loop{2, graph::ChunkPlacement::loop}, v{2, graph::ChunkPlacement::v};
  EXPECT_EQ(refusal("interleaved", {.stages = 4, .micro_batches = 6, .chunks = loop}),
            "policy interleaved: 6 micro-batches on 4 pipeline ranks; expected a multiple of 4 micro-batches a step\n"
            "  fix: choose --global-batch and --micro-batch so that there are 8, or policy 1f1b");
  EXPECT_EQ(
      refusal("interleaved", {.stages = 2, .micro_batches = 4}),
      "policy interleaved orders 2 chunks of layers a rank, placed as a loop, and pipeline rank 0 of 2 holds the "
      "virtual stages 0; expected the virtual stages 0, 2\n  fix: lower the model with the chunks that this policy "
      "names, or choose another policy");
  EXPECT_TRUE(testing::contains(refusal("dualpipe-v", {.stages = 4, .micro_batches = 7, .chunks = v}),
                                "7 micro-batches on 4 pipeline ranks"));
  EXPECT_THROW(make_policy("interleaved:chunks=1"), UserError);
}

}  // namespace
}  // namespace weft::policy
