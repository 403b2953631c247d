#include "runtime/simulate/flat_program.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/runtime/pipeline_toy.h"

namespace weft::simulate {
namespace {

using testing::pipeline_plans;
using testing::PipelineToy;
using testing::pointers_to;

constexpr auto kInProgramOrder = [](auto& toy, std::int64_t rank) { return units_in_program_order(toy, rank); };

class FlatPipeline : public ::testing::Test {
 protected:
  FlatPipeline() : plans_(pipeline_plans(toy_, kInProgramOrder)), costs_(toy_.costs()) {
    for (std::size_t k = 0; k < costs_.size(); ++k) {
      costs_[k].link_ns = costs_[k].beside_ns = costs_[k].ns;
      for (std::size_t i = 0; i < costs_[k].ns.size(); ++i) {
        const graph::Operation& operation = toy_.classes()[k]->tasks()[i].operation;
        if (std::holds_alternative<graph::Send>(operation)) {
          costs_[k].link_ns[i] *= 0.5;
          costs_[k].beside_ns[i] *= 4;
        }
        if (std::holds_alternative<graph::Receive>(operation)) costs_[k].cpu_ns[i] = 25;
      }
    }
  }
  FlatProgram flat(const std::vector<int>& links) const {
    cost::Machine machine;
    machine.shared_cores = true;
    return {pointers_to(plans_), costs_, machine, links};
  }

  PipelineToy toy_{{.stages = 2, .micro_batches = 2, .message = 100, .world = true}};
  std::vector<plan::Plan> plans_;
  std::vector<cost::TaskCosts> costs_;
};

TEST_F(FlatPipeline, AReceiveHasItsSendsUseOfTheLinkAndOfCores) {
  const FlatProgram program = flat(std::vector<int>(graph::kAxisChannels, 7));
  const time::ClassLoads& loads = program.loads()[1];
  const std::vector<std::vector<FlatEntry>>& streams = program.classes()[1].streams;
  const std::size_t stream = program.stream_of(1, graph::Channel::receive_previous);
  EXPECT_FALSE(loads.streams[stream].sends);
  EXPECT_TRUE(loads.streams[stream].receives);
  ASSERT_EQ(streams[stream].size(), 2U);
  const time::TaskLoad& receive = loads.tasks[streams[stream][0].task];
  EXPECT_EQ(receive.ns, 0);
  EXPECT_EQ(receive.use, 0.5);
  EXPECT_EQ(receive.beside, 0.25);
  EXPECT_EQ(receive.cores, 0.25);
  const time::StreamLoad& world = loads.streams[program.stream_of(1, graph::Channel::world)];
  EXPECT_TRUE(world.sends && world.receives);
  EXPECT_EQ(program.stream_of(1, graph::Channel::send_next), streams.size());
}

TEST_F(FlatPipeline, OtherNumbersOfMessagesAreRefused) {
  const PipelineToy longer({.stages = 2, .micro_batches = 3, .message = 100, .world = true});
  plans_[1] = pipeline_plans(longer, kInProgramOrder)[1];
  costs_[1] = longer.costs()[1];
  EXPECT_THROW((void)flat(std::vector<int>(graph::kAxisChannels)), std::logic_error);
}

}  // namespace
}  // namespace weft::simulate
