// A loaded plan's fused tasks and kept traces.
#include "runtime/execute/device/device_plan.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/compile/compile_plan.h"
#include "tests/runtime/execute/device/fake_device.h"
#include "tests/runtime/toy_graph.h"

namespace weft::execute {
namespace {

/// Three independent tasks of one stream, prepared on a fake device.
class ThreeTasks : public ::testing::Test {
 protected:
  ThreeTasks() { load(); }

  void load(const std::string& of_another_kind = "") {
    testing::ToyGraph toy;
    for (const std::string name : {"a", "b", "c"}) {
      const graph::View from = toy.tensor("from_" + name, 1, graph::Role::parameter),
                        to = toy.tensor("to_" + name, 1, graph::Role::parameter);
      if (name == of_another_kind) {
        toy.add({name, graph::GeluForward{1}, {graph::read(from), graph::write(to)}});
      } else {
        toy.compute(name, {graph::read(from), graph::read(from), graph::write(to)});
      }
    }
    loaded_ = {};
    loaded_.plan =
        std::make_shared<const plan::Plan>(policy::compile_plan(toy.build(), *policy::make_policy("program")));
    const graph::Graph& graph = *loaded_.plan->graph;
    for (std::uint32_t entry = 0; entry < 3; ++entry) {
      const graph::Task& task = graph.task(loaded_.plan->sequence[entry]);
      std::vector<cpu::Matrix> arguments;
      for (const graph::Access& access : task.accesses) {
        arguments.push_back({&memory_[access.view.tensor.index()], 1, 1, 1, DType::f32});
      }
      DeviceStep& step = loaded_.steps.emplace_back();
      step.stream = plan::StreamId(std::size_t{0});
      step.entry = entry;
      step.touches = touches_of(task, arguments);
      step.task = device_->prepare(graph, task, std::move(arguments));
    }
  }
  /// By task: whether it begins a fused task, and whether it is a part of one that began before it.
  std::string runs() {
    fuse_horizontally(loaded_, *device_);
    std::string text;
    for (const DeviceStep& step : loaded_.steps) text += step.fused != nullptr ? "[" : step.part_of_fused ? "=" : ".";
    return text;
  }
  std::vector<float> memory_ = std::vector<float>(6);
  std::unique_ptr<testing::FakeDevice> device_ = testing::make_fake_device();
  DevicePlan loaded_;
};

TEST_F(ThreeTasks, RunAsOne) {
  loaded_.steps[2].signal = device_->add_event(false);
  fuse_horizontally(loaded_, *device_);
  EXPECT_NE(loaded_.steps[0].fused, nullptr);
  EXPECT_FALSE(loaded_.steps[0].part_of_fused);
  EXPECT_TRUE(loaded_.steps[1].part_of_fused);
  EXPECT_TRUE(loaded_.steps[2].part_of_fused);
  EXPECT_EQ(loaded_.steps[0].fused_signal, loaded_.steps[2].signal);
  EXPECT_TRUE(loaded_.steps[1].touches.empty());
}

TEST_F(ThreeTasks, OfOneKindAreRuns) {
  load("c");
  EXPECT_EQ(runs(), "[=.");
  load("b");
  EXPECT_EQ(runs(), "...");
  load("a");
  EXPECT_EQ(runs(), ".[=");
}

TEST_F(ThreeTasks, OnlyTheFirstWaitsAndOnlyTheLastSignals) {
  loaded_.steps[0].waits.push_back(device_->add_event(false));
  EXPECT_EQ(runs(), "[==");
  load();
  loaded_.steps[1].waits.push_back(device_->add_event(false));
  EXPECT_EQ(runs(), ".[=");
  load();
  loaded_.steps[1].signal = device_->add_event(false);
  EXPECT_EQ(runs(), "[=.");
}

// A task reads the tensor whose bytes the other task's tensor reuses, for which the graph has no edge.
TEST_F(ThreeTasks, SharedBytesKeepTheirOrder) {
  static const std::byte kMemory[300] = {};
  const auto touches = [](std::int64_t reads, std::int64_t writes) {
    return std::vector<Touch>{{{kMemory + reads, 1, 10, 10}, false}, {{kMemory + writes, 1, 10, 10}, true}};
  };
  const std::vector<std::pair<std::vector<Touch>, std::string>> cases = {
      {touches(100, 5), ".[="}, {touches(15, 30), ".[="}, {touches(30, 15), ".[="}};
  for (const auto& [second, expected] : cases) {
    load();
    loaded_.steps[0].touches = touches(0, 10);
    loaded_.steps[1].touches = second;
    EXPECT_EQ(runs(), expected);
  }
  load();
  loaded_.steps[0].touches = touches(0, 100);
  loaded_.steps[1].touches = touches(5, 200);
  EXPECT_EQ(runs(), "[==") << "both only read the shared bytes";
}

TEST_F(ThreeTasks, TheLargestScratchOfAStreamCounts) {
  std::vector<std::int64_t> bytes;
  count_kernel_scratch(*loaded_.plan, *testing::make_fake_device({.scratch_bytes = 96}), bytes);
  EXPECT_EQ(bytes, std::vector<std::int64_t>{96});
  count_kernel_scratch(*loaded_.plan, *testing::make_fake_device({.scratch_bytes = 64}), bytes);
  EXPECT_EQ(bytes, std::vector<std::int64_t>{96}) << "another plan's tasks take more";
}

TEST_F(ThreeTasks, TheLastTracesAreKept) {
  const DeviceStream stream = device_->add_stream("compute0", StreamPriority::normal);
  const DeviceEvent begin = device_->add_event(true), end = device_->add_event(true);
  std::vector<DeviceEvent> events;
  for (int i = 0; i < 6; ++i) events.push_back(device_->add_event(true));
  for (std::int64_t step = 1; step <= 3; ++step) {
    device_->record(begin, stream);
    for (const DeviceEvent event : events) device_->record(event, stream);
    device_->record(end, stream);
    device_->synchronize(stream);
    keep_trace(loaded_, *device_, {step, 1000 * step, begin, end, events}, 2);
  }
  ASSERT_EQ(loaded_.traces.size(), 2U);
  EXPECT_EQ(loaded_.traces[0].step, 2);
  const plan::StepTrace& last = loaded_.traces[1];
  EXPECT_EQ(last.step, 3);
  EXPECT_EQ(last.begin, 3000);
  std::int64_t until = last.begin;
  for (const plan::TaskTime& time : last.times.at(0)) {
    EXPECT_LE(until, time.begin);
    EXPECT_LE(time.begin, time.end);
    until = time.end;
  }
  EXPECT_LE(until, last.end);
}

}  // namespace
}  // namespace weft::execute
