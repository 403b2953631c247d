#include "runtime/policy/pipeline/class_units.h"

#include <gtest/gtest.h>

#include <utility>

#include "tests/runtime/pipeline_toy.h"

namespace weft::policy {
namespace {

using Strings = std::vector<std::string>;

TEST(ClassUnits, TheInputPartLeadsToTheGradientThatIsSent) {
  const testing::PipelineToy toy({.stages = 3, .micro_batches = 2, .pieces = 2, .world = true});
  const graph::Graph& graph = *toy.classes()[1];
  const ClassUnits units(graph, shape_of(toy.classes(), {}, "test"));
  EXPECT_EQ(testing::names_of(graph, units.tasks_of({Work::forward, 1, 1})),
            (Strings{"mb1.S1.fwd.receive", "mb1.S1.fwd.p0", "mb1.S1.fwd.p1", "mb1.S1.fwd.send"}));
  EXPECT_EQ(testing::names_of(graph, units.tasks_of({Work::input, 1, 1})),
            (Strings{"mb1.S1.bwd.receive", "mb1.S1.bwd.input.p1", "mb1.S1.bwd.input.p0", "mb1.S1.bwd.send"}));
  EXPECT_EQ(testing::names_of(graph, units.tasks_of({Work::weight, 1, 1})),
            (Strings{"mb1.S1.bwd.weight.p1", "mb1.S1.bwd.weight.p0"}));
  EXPECT_TRUE(units.tasks_of({Work::forward, 1, 0}).empty());
  EXPECT_TRUE(units.first().empty());
  EXPECT_EQ(testing::names_of(graph, units.last()),
            (Strings{"sum_squares", "gradient_norm", "S1.update.p0", "S1.update.p1"}));
}

// Nothing leaves the first virtual stage of a toy, which has no embedding.
TEST(ClassUnits, WhereNoGradientLeavesAllIsTheInputPart) {
  const testing::PipelineToy toy({.stages = 2, .micro_batches = 1});
  const graph::Graph& graph = *toy.classes()[0];
  const ClassUnits units(graph, shape_of(toy.classes(), {}, "test"));
  EXPECT_EQ(testing::names_of(graph, units.tasks_of({Work::input, 0, 0})),
            (Strings{"mb0.S0.bwd.receive", "mb0.S0.bwd.input.p0", "mb0.S0.bwd.weight.p0"}));
  EXPECT_TRUE(units.tasks_of({Work::weight, 0, 0}).empty());
}

// At the turn of a V the gradient goes from chunk to chunk of one rank, without a message.
TEST(ClassUnits, AGradientMayLeaveForTheOtherChunkOfARank) {
  const testing::PipelineToy toy({.stages = 2, .micro_batches = 1, .chunks = {2, graph::ChunkPlacement::v}});
  const graph::Graph& graph = *toy.classes()[1];
  const ClassUnits units(graph, shape_of(toy.classes(), {2, graph::ChunkPlacement::v}, "test"));
  EXPECT_EQ(testing::names_of(graph, units.tasks_of({Work::input, 0, 2})),
            (Strings{"mb0.S2.bwd.receive", "mb0.S2.bwd.input.p0"}));
  EXPECT_EQ(testing::names_of(graph, units.tasks_of({Work::weight, 0, 2})), Strings{"mb0.S2.bwd.weight.p0"});
}

// Of a model's first stage, the gradients of embeddings aren't waited for, but everything before them is.
TEST(ClassUnits, GradientsOfEmbeddingsAreOfWeights) {
  graph::GraphBuilder builder(graph::Arguments::of_any_form);
  const auto tensor = [&](const char* name) {
    return graph::whole(builder, builder.add_tensor({name, DType::f32, {8}}));
  };
  const graph::View dy = tensor("dy"), dx = tensor("dx"), dw = tensor("dw"), dwte = tensor("dwte");
  const auto add = [&](const char* name, graph::Operation operation, std::vector<graph::Access> accesses) {
    builder.add_task({.name = name,
                      .operation = std::move(operation),
                      .accesses = std::move(accesses),
                      .micro_batch = 0,
                      .phase = graph::Phase::backward,
                      .stage = 0});
  };
  add("receive", graph::Receive{graph::Channel::receive_next, 1, 8}, {graph::write(dy)});
  add("dw", graph::Add{1}, {graph::read(dy), graph::write(dw)});
  add("dx", graph::Add{1}, {graph::read(dy), graph::write(dx)});
  add("dx.sum", graph::AllReduce{graph::Channel::x, 2, 8}, {graph::read_write(dx)});
  add("dwte", graph::EmbeddingBackward{1, 8, 1}, {graph::read(dx), graph::write(dwte)});
  const auto graph = std::make_shared<const graph::Graph>(std::move(builder).build());
  const ClassUnits units(*graph, shape_of({&graph, 1}, {}, "test"));
  EXPECT_EQ(testing::names_of(*graph, units.tasks_of({Work::input, 0, 0})), (Strings{"receive", "dx", "dx.sum"}));
  EXPECT_EQ(testing::names_of(*graph, units.tasks_of({Work::weight, 0, 0})), (Strings{"dw", "dwte"}));
}

}  // namespace
}  // namespace weft::policy
