#include "ops/lowering.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/ops/tiny_model.h"

namespace weft::ops {
namespace {

constexpr std::int64_t kRows = 2, kCols = 3;

// A lowering with one input, and operations whose adjoints scale nothing: these tests look at names, order and edges.
class LoweringBench : public ::testing::Test {
 protected:
  Value input(const std::string& name = "in") {
    return {low_.named(name, DType::f32, {kRows, kCols}, graph::Role::input), kRows, kCols};
  }
  static Value unary(Lowering& low, Value x, const std::string& name) {
    auto scope = low.enter(name);
    const Value y{low.activation("out", x.rows, x.cols), x.rows, x.cols};
    low.emit("gelu", graph::GeluForward{kRows * kCols}, {{"x", low.read(x.tensor)}, {"y", low.write(y.tensor)}});
    low.record({}, [=](Lowering& l) {
      const graph::TensorId dx = l.activation("dx", x.rows, x.cols);
      l.emit("gelu_dx", graph::GeluBackward{kRows * kCols},
             {{"x", l.read(x.tensor)}, {"dy", l.read(l.gradient(y))}, {"dx", l.write(dx)}});
      l.add_gradient(x, dx);
    });
    return y;
  }
  // Writes state, so that the tasks leading to it stay.
  void keep(graph::TensorId tensor, const std::string& as) {
    const graph::TensorId state = low_.named(as, DType::f32, {kRows, kCols}, graph::Role::scalar);
    low_.emit("keep_" + as, graph::GeluForward{kRows * kCols}, {{"x", low_.read(tensor)}, {"y", low_.write(state)}});
  }
  std::vector<std::string> finish() {
    graph_ = std::move(low_).finish();
    std::vector<std::string> names;
    for (const graph::Task& t : graph_->tasks()) names.push_back(t.name);
    return names;
  }

  Lowering low_{testing::tiny_model(Family::gpt2), DType::f32};
  std::shared_ptr<const graph::Graph> graph_;
};

TEST_F(LoweringBench, ScopesMakeNamesAndPlaces) {
  const Value x = input();
  {
    auto micro_batch = low_.enter_micro_batch(1);
    auto layer = low_.enter_layer(3);
    auto mlp = low_.enter("mlp");
    keep(unary(low_, x, "up").tensor, "result");
  }
  low_.set_phase(graph::Phase::update);
  keep(x.tensor, "copy");
  EXPECT_EQ(finish(),
            (std::vector<std::string>{"mb1.L3.mlp.up.fwd.gelu", "mb1.L3.mlp.fwd.keep_result", "update.keep_copy"}));
  const graph::Task& first = graph_->task(graph::TaskId(0));
  EXPECT_EQ(first.layer, 3);
  EXPECT_EQ(first.micro_batch, 1);
  EXPECT_EQ(first.phase, graph::Phase::forward);
  const graph::Task& last = graph_->task(graph::TaskId(2));
  EXPECT_EQ(last.layer, -1);
  EXPECT_EQ(last.micro_batch, -1);
  EXPECT_EQ(last.phase, graph::Phase::update);
}

TEST_F(LoweringBench, ContributionsToAGradientAreSummed) {
  const Value x = input();
  const Value first = unary(low_, x, "a"), second = unary(low_, x, "b");
  low_.set_gradient(first, first.tensor);
  low_.set_gradient(second, second.tensor);
  low_.backward();
  keep(low_.gradient(x), "gradient");
  finish();
  ASSERT_EQ(testing::count_of<graph::Add>(*graph_), 1);
  // The sum comes after both contributions and before its reader.
  const auto names = testing::tasks_with(*graph_, "bwd.");
  ASSERT_EQ(names.size(), 4U);
  EXPECT_EQ(names[0], "b.bwd.gelu_dx");
  EXPECT_EQ(names[1], "a.bwd.gelu_dx");
  EXPECT_EQ(testing::tensor_of(*graph_, names[2], 0), "b.bwd.dx");
  EXPECT_EQ(testing::tensor_of(*graph_, names[2], 1), "a.bwd.dx");
  EXPECT_EQ(testing::tensor_of(*graph_, names[3], 0), testing::tensor_of(*graph_, names[2], 2));
}

TEST_F(LoweringBench, ACheckpointIsRunAgainAndItsDeadTailIsNot) {
  const Value x = input();
  const auto segment = [](Lowering& low, Value in) { return unary(low, unary(low, in, "a"), "b"); };
  const Value y = unary(low_, low_.checkpoint(x, segment), "c");
  low_.set_gradient(y, y.tensor);
  low_.backward();
  keep(low_.gradient(x), "gradient");
  // b's adjoint reads b's input, made by the second a; no task reads a second b, so it is dropped.
  EXPECT_EQ(finish(),
            (std::vector<std::string>{"a.fwd.gelu", "b.fwd.gelu", "c.fwd.gelu", "c.bwd.gelu_dx", "a.recompute.gelu",
                                      "b.bwd.gelu_dx", "a.bwd.gelu_dx", "bwd.keep_gradient"}));
  EXPECT_EQ(testing::tensor_of(*graph_, "b.bwd.gelu_dx", 0), "a.recompute.out");
  EXPECT_EQ(testing::task(*graph_, "a.recompute.gelu").phase, graph::Phase::backward);
}

TEST_F(LoweringBench, TasksThatNobodyReadsAreDropped) {
  const Value x = input();
  const Value useful = unary(low_, x, "useful");
  unary(low_, unary(low_, useful, "idle"), "idle_too");
  keep(useful.tensor, "result");
  EXPECT_EQ(finish(), (std::vector<std::string>{"useful.fwd.gelu", "fwd.keep_result"}));
  EXPECT_FALSE(graph_->find_tensor("idle.fwd.out").valid());
}

TEST_F(LoweringBench, CollectivesWhoseResultNobodyReadsAreDroppedOnAllRanks) {
  const graph::TensorId lonely = low_.scratch("lonely", DType::f32, {4}, graph::Role::workspace);
  const Value x = input();
  low_.emit("fill", graph::GeluForward{4}, {{"x", low_.read(x.tensor)}, {"y", low_.write(lonely)}});
  low_.emit("all_gather", graph::AllGather{graph::Channel::world, 2, 2},
            {{"in", graph::read(low_.elements(lonely, 0, 2))},
             {"out", low_.write(low_.scratch("everybody", DType::f32, {4}, graph::Role::workspace))}});
  EXPECT_EQ(finish(), std::vector<std::string>{});
}

TEST_F(LoweringBench, AParameterIsCompleteBehindItsLastAdjointOfEachMicroBatch) {
  Parameter& shared = low_.parameter("wte.weight");
  std::vector<std::pair<std::string, std::int64_t>> completed;  // with its micro-batch
  low_.on_gradient_complete([&](Lowering&, Parameter& parameter, std::int64_t micro_batch) {
    completed.emplace_back(parameter.spec->name, micro_batch);
  });
  std::vector<std::pair<int, std::size_t>> seen;  // adjoint, parameters complete before it
  for (std::int64_t mb = 0; mb < 2; ++mb) {
    auto scope = low_.enter_micro_batch(mb);
    for (int use = 0; use < 2; ++use) {
      low_.record({&shared}, [&, use](Lowering& l) {
        seen.emplace_back(use, completed.size());
        const auto slot = l.gradient_slot(shared);
        EXPECT_EQ(slot.accumulate, seen.size() > 1);
      });
    }
    low_.backward();
  }
  EXPECT_EQ(seen, (std::vector<std::pair<int, std::size_t>>{{1, 0}, {0, 0}, {1, 1}, {0, 1}}));
  EXPECT_EQ(completed, (std::vector<std::pair<std::string, std::int64_t>>{{"wte.weight", 0}, {"wte.weight", 1}}));
}

TEST_F(LoweringBench, AGradientThatIsTakenBeginsAnew) {
  Parameter& parameter = low_.parameter("wte.weight");
  const auto first = low_.gradient_slot(parameter);
  EXPECT_FALSE(first.accumulate);
  EXPECT_EQ(low_.tensor(first.tensor).name, "wte.weight.grad");
  EXPECT_EQ(low_.take_gradient(parameter), first.tensor);
  const auto second = low_.gradient_slot(parameter);
  EXPECT_FALSE(second.accumulate);
  EXPECT_EQ(second.tensor, first.tensor);
  EXPECT_TRUE(low_.gradient_slot(parameter).accumulate);
  low_.take_gradient(parameter);
  parameter.gradient_name = "shared.grad";
  EXPECT_EQ(low_.tensor(low_.gradient_slot(parameter).tensor).name, "shared.grad");
}

TEST_F(LoweringBench, AScopeIsEnteredAgainFromAnother) {
  Lowering::Frame frame;
  const Value x = input();
  {
    auto micro_batch = low_.enter_micro_batch(1);
    auto layer = low_.enter_layer(0);
    frame = low_.here();
  }
  auto other = low_.enter("other");
  {
    auto again = low_.enter_again(frame);
    keep(unary(low_, x, "late").tensor, "result");
  }
  keep(unary(low_, x, "after").tensor, "rest");
  EXPECT_EQ(finish(), (std::vector<std::string>{"mb1.L0.late.fwd.gelu", "mb1.L0.fwd.keep_result",
                                                "other.after.fwd.gelu", "other.fwd.keep_rest"}));
  EXPECT_EQ(testing::task(*graph_, "mb1.L0.late.fwd.gelu").layer, 0);
  EXPECT_EQ(testing::task(*graph_, "mb1.L0.late.fwd.gelu").micro_batch, 1);
}

TEST_F(LoweringBench, MisuseIsALogicError) {
  const Value x = input();
  EXPECT_THROW(low_.gradient(x), std::logic_error);
  EXPECT_THROW(low_.parameter("L0.no.such"), std::logic_error);
  low_.activation("twice", 1, 1);
  EXPECT_THROW(low_.activation("twice", 1, 1), std::logic_error);
  EXPECT_EQ(low_.named("in", DType::f32, {kRows, kCols}, graph::Role::input), x.tensor);
}

TEST_F(LoweringBench, ViewsOfColumnsAndElements) {
  const graph::TensorId packed = low_.activation("qkv", 4, 9);
  EXPECT_EQ(low_.view(packed), (graph::View{packed, 0, 4, 9, 9}));
  EXPECT_EQ(low_.columns(packed, 3, 3), (graph::View{packed, 3, 4, 3, 9}));
  EXPECT_EQ(low_.elements(packed, 9, 18), (graph::View{packed, 9, 1, 18, 18}));
}

}  // namespace
}  // namespace weft::ops
