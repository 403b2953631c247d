// A loaded plan's fused tasks, kept traces, and transfers to the device before a run and back after it.
#include "runtime/execute/device/device_plan.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
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
      step.task = device_->prepare(task, std::move(arguments), scratch_);
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
  std::byte* scratch_ = device_->allocate(64);
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

// Gathers of a tensor each, on z_gather but for the letter's own channel, and computations, in the order of their
// names.
class Gathers : public ::testing::Test {
 protected:
  /// The steps in their order: "." by itself, "<" with a later one, "3" the last of three. Each name of `reads` is a
  /// computation and the gather whose result it reads.
  std::string groups(const std::string& order, const std::vector<std::pair<std::string, std::string>>& reads = {},
                     graph::Channel of_b = graph::Channel::z_gather, bool b_overwrites_a = false) {
    testing::ToyGraph toy;
    std::map<std::string, graph::View> results;
    for (const std::string name : {"a", "b", "c"}) {
      results[name] = toy.tensor("of_" + name, 2);
      const graph::Channel channel = name == "b" ? of_b : graph::Channel::z_gather;
      toy.add(name, graph::AllGather{channel, 2, 1},
              {graph::read(toy.tensor("shard_" + name, 1, graph::Role::parameter)), graph::write(results[name])});
    }
    std::map<std::string, std::string> read_by(reads.begin(), reads.end());
    for (const std::string name : {"u", "v"}) {
      const graph::View result = toy.tensor("of_" + name, 2);
      if (read_by.contains(name)) {
        toy.compute(name, {graph::read(results[read_by[name]]), graph::write(result)});
      } else {
        toy.compute(name, {graph::write(result)});
      }
    }
    const auto graph = toy.build();
    const plan::Plan plan = plan::make_plan(graph, testing::order_in(*graph, order), "test");
    DevicePlan loaded;
    loaded.plan = std::make_shared<const plan::Plan>(plan);
    std::map<std::pair<std::size_t, std::uint32_t>, DeviceEvent> signals;
    for (const graph::TaskId id : plan.sequence) {
      const plan::Position at = plan.position[id.index()];
      const plan::Entry& entry = plan.streams[at.stream.index()].entries[at.entry];
      DeviceStep& step = loaded.steps.emplace_back();
      step.stream = at.stream;
      for (const plan::Wait& wait : entry.waits) {
        if (wait.distance == 0) step.waits.push_back(signals.at({wait.stream.index(), wait.entry}));
      }
      if (entry.signals) step.signal = signals[{at.stream.index(), at.entry}] = device_->add_event(false);
      const std::string& name = graph->task(id).name;
      if (graph::channel_of(graph->task(id).operation) == nullptr) {
        step.task = std::make_unique<DeviceTask>();
      } else {
        step.call.kind = comm::CollectiveKind::all_gather;
        const std::int64_t address = name == "b" && b_overwrites_a ? 0 : 100 * (name[0] - 'a');
        step.touches = {{{{}, 1'000'000 + address, 1, 8, 8}, true}};
      }
    }
    group_gathers(loaded);
    std::string text;
    for (const DeviceStep& step : loaded.steps) {
      EXPECT_EQ(step.gathers.size(), step.gather_calls.size());
      text += step.gathered_later ? "<" : step.gathers.empty() ? "." : std::to_string(step.gathers.size());
    }
    return text;
  }

  std::unique_ptr<testing::FakeDevice> device_ = testing::make_fake_device();
};

TEST_F(Gathers, NeighboursAreOneGroup) {
  EXPECT_EQ(groups("a b c u v"), "<<3..");
  EXPECT_EQ(groups("a u b v c"), "<.<.3") << "no computation needs one of them";
  EXPECT_EQ(groups("a b u c v", {{"v", "a"}}), "<<.3.");
}

TEST_F(Gathers, AComputationThatNeedsOneEndsTheGroup) {
  EXPECT_EQ(groups("a b u c v", {{"u", "a"}}), "<2...");
  EXPECT_EQ(groups("a u b v c", {{"u", "a"}, {"v", "b"}}), ".....");
}

TEST_F(Gathers, OtherCollectivesAndSharedBytesEndTheGroup) {
  EXPECT_EQ(groups("a c b u v"), "<<3..");
  EXPECT_EQ(groups("a b c u v", {}, graph::Channel::data), ".....");
  EXPECT_EQ(groups("a c b u v", {}, graph::Channel::data), "<2...");
  EXPECT_EQ(groups("b a c u v", {}, graph::Channel::world), ".<2..");
  EXPECT_EQ(groups("a b c u v", {}, graph::Channel::z_gather, true), ".<2..");
}

// `count` rows of `bytes` at an address, `apart` bytes from begin to begin.
graph::View rows(std::int64_t address, std::int64_t bytes, std::int64_t apart = 100, std::int64_t count = 1) {
  return {{}, 1'000'000 + address, count, bytes, apart};
}

// A task writes a tensor in the bytes of a tensor that the other task reads, for which the graph has no edge.
TEST_F(ThreeTasks, SharedBytesKeepTheirOrder) {
  const auto touches = [](std::int64_t reads, std::int64_t writes) {
    return std::vector<Touch>{{rows(reads, 10), false}, {rows(writes, 10), true}};
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

// Whatever the column is at which the address of the first one begins.
TEST(ByColumns, WindowsOfEqualStrideMeetOnlyInTheirColumns) {
  for (const std::int64_t at : {0, 30, 77}) {
    const auto meet = [](const graph::View& a, const graph::View& b) {
      const bool meets = std::apply(graph::overlaps, by_columns(a, b));
      EXPECT_EQ(std::apply(graph::overlaps, by_columns(b, a)), meets);
      return meets;
    };
    const auto columns = [at](std::int64_t from, std::int64_t bytes) { return rows(at + from, bytes, 100, 10); };
    EXPECT_TRUE(meet(columns(0, 40), columns(30, 40)));
    EXPECT_FALSE(meet(columns(0, 40), columns(40, 40)));
    EXPECT_FALSE(meet(columns(40, 40), columns(100, 40)));
    EXPECT_TRUE(meet(columns(80, 20), columns(190, 5)));
    EXPECT_FALSE(meet(columns(0, 40), rows(at + 250, 1, 1)));
    EXPECT_TRUE(meet(columns(0, 40), rows(at + 230, 1, 1)));
    EXPECT_FALSE(meet(rows(at, 10, 10), rows(at + 10, 10, 10)));
  }
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

TEST(Transfers, InputsGoThereAndWrittenScalarsComeBack) {
  testing::ToyGraph toy;
  const graph::View in = toy.tensor("in", 3, graph::Role::input), unused = toy.tensor("unused", 3, graph::Role::input);
  const graph::View loss = toy.tensor("loss", 1, graph::Role::scalar),
                    weight = toy.tensor("weight", 3, graph::Role::parameter);
  toy.compute("a", {graph::read(in), graph::read(weight), graph::write(loss)});
  const auto graph = toy.build();
  const State state(std::array{graph});
  const auto device = testing::make_fake_device();
  std::byte* const on_device = device->allocate(state.bytes());
  const Transfers transfers = find_transfers(*graph, state, on_device, *device);
  EXPECT_EQ(graph->tensor(unused.tensor).name, "unused");
  ASSERT_EQ(transfers.uploads.parts.size(), 2U);
  ASSERT_EQ(transfers.downloads.parts.size(), 1U);
  EXPECT_EQ(transfers.uploads.parts[0].host, state.data("in"));
  EXPECT_EQ(transfers.uploads.parts[0].device, on_device + state.offset("in"));
  EXPECT_EQ(transfers.uploads.parts[0].bytes, 12);
  EXPECT_EQ(transfers.downloads.parts[0].host, state.data("loss"));
}

TEST(Transfers, ACopyHoldsWhatTheHostHad) {
  testing::ToyGraph toy;
  const graph::View in = toy.tensor("in", 2, graph::Role::input), other = toy.tensor("other", 1, graph::Role::input);
  toy.compute("a", {graph::read(in), graph::read(other), graph::write(in), graph::write(other)});
  const auto graph = toy.build();
  const State state(std::array{graph});
  const auto device = testing::make_fake_device();
  const Transfers transfers = find_transfers(*graph, state, device->allocate(state.bytes()), *device);
  const auto write_all = [&](float first) {
    state.get<float>("in")[0] = first;
    state.get<float>("in")[1] = first + 1;
    state.get<float>("other")[0] = first + 2;
  };
  write_all(1);
  collect(transfers.uploads, 0);
  write_all(10);
  collect(transfers.uploads, 1);
  write_all(0);
  deliver(transfers.uploads, 0);
  EXPECT_EQ(state.get<float>("in")[1], 2);
  EXPECT_EQ(state.get<float>("other")[0], 3);
  deliver(transfers.uploads, 1);
  EXPECT_EQ(state.get<float>("in")[0], 10);
  EXPECT_EQ(state.get<float>("other")[0], 12);
}

}  // namespace
}  // namespace weft::execute
