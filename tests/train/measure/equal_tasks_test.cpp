#include "train/measure/equal_tasks.h"

#include <gtest/gtest.h>

#include <utility>

#include "runtime/execute/cpu/collective_probe.h"

namespace weft::train {
namespace {

TEST(EqualTasks, OfAllKindsRunOnTheCpu) {
  const auto run = [](const EqualTasks& tasks) {
    const auto graph = graph_of(tasks);
    execute::ProbeComputation(*graph, graph->tasks().front(), 1).run();
  };
  for (const DType dtype : {DType::f32, DType::bf16}) {
    run({graph::Gemm{8, 16, 4}, dtype});
    run({graph::Gemm{.m = 8, .n = 16, .k = 4, .trans_a = true}, dtype});
    run({graph::AttentionForward{1, 16, 2, 2, 16}, dtype});
    run({graph::AttentionBackward{1, 16, 2, 2, 16}, dtype});
    run({graph::GeluForward{100}, dtype});
  }
}

TEST(EqualTasks, HasEqualTasksOnOperandsOfTheSchema) {
  const auto shared = graph_of({graph::AttentionForward{2, 8, 4, 2, 16}, DType::bf16, 3, "attend"});
  const graph::Graph& graph = *shared;
  ASSERT_EQ(graph.tasks().size(), 3U);
  EXPECT_EQ(graph.tasks()[2].name, "attend2");
  ASSERT_EQ(graph.tensors().size(), 5U);  // of all tasks
  EXPECT_EQ(graph.tensor(graph.find_tensor("attend.k")).elements(), 2 * 8 * 2 * 16);
  EXPECT_EQ(graph.tensor(graph.find_tensor("attend.k")).dtype, DType::bf16);
  EXPECT_EQ(graph.tensor(graph.find_tensor("attend.log_sum_exp")).dtype, DType::f32);
  EXPECT_EQ(graph.tasks()[0].accesses[3].mode, graph::AccessMode::write);
}

TEST(EqualTasks, MayUseTheBeginningOfLargerMemory) {
  graph::GraphBuilder builder;
  add_equal_tasks(builder, {graph::AllReduce{graph::Channel::y, 2, 10}, DType::f32, 2, "array", 100});
  add_equal_tasks(builder, {graph::Add{7}});
  const graph::Graph graph = std::move(builder).build();
  ASSERT_EQ(graph.tasks().size(), 3U);
  const graph::View& view = graph.tasks()[1].accesses[0].view;
  EXPECT_EQ(view.elements(), 10);
  EXPECT_EQ(graph.tensor(view.tensor).elements(), 100);
  EXPECT_EQ(graph.tensor(graph.tasks()[2].accesses[0].view.tensor).elements(), 7);
}

}  // namespace
}  // namespace weft::train
