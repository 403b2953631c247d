// The state's parts that steps change, and their way from a device while a step goes on to change them.
#include "runtime/execute/device/state_pieces.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <vector>

#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/compile/compile_plan.h"
#include "tests/runtime/execute/device/fake_device.h"
#include "tests/runtime/toy_graph.h"

namespace weft::execute {
namespace {

TEST(StatePieces, ABlockIsCutIntoParts) {
  std::array<std::byte, 10> host{}, device{};
  const std::vector<StatePart> parts = parts_of({host.data(), device.data(), 10}, 4);
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[2].host, host.data() + 8);
  EXPECT_EQ(parts[2].device, device.data() + 8);
  EXPECT_EQ(parts[2].bytes, 2);
  EXPECT_TRUE(parts_of({host.data(), device.data(), 0}, 4).empty());
}

class MovedState : public ::testing::Test {
 protected:
  static constexpr std::int64_t kBytes = 1000, kPart = 128;

  MovedState() {
    std::iota(host_.begin(), host_.end(), std::uint8_t{1});
    parts_ = parts_of({reinterpret_cast<std::byte*>(host_.data()), there_, kBytes}, kPart);
  }

  std::unique_ptr<testing::FakeDevice> device_ = testing::make_fake_device();
  std::byte* there_ = device_->allocate(kBytes);
  std::vector<std::uint8_t> host_ = std::vector<std::uint8_t>(kBytes);
  std::vector<StatePart> parts_;
  StatePieces pieces_{*device_};
};

TEST_F(MovedState, ComesBackAsItWas) {
  const std::vector<std::uint8_t> before = host_;
  pieces_.bring(parts_);
  std::ranges::fill(host_, 0);
  EXPECT_EQ(pieces_.take(parts_), 0U);
  pieces_.finish();
  EXPECT_EQ(host_, before);
  EXPECT_EQ(pieces_.take(parts_), parts_.size());
  pieces_.finish();
}

// The fake device would report a write of bytes that a copy may still read.
TEST_F(MovedState, WhatHasLeftMayChange) {
  const std::vector<std::uint8_t> before = host_;
  pieces_.bring(parts_);
  std::byte* const zeros = device_->allocate_pinned(kBytes);
  std::memset(zeros, 0, kBytes);
  const DeviceStream compute = device_->add_stream("compute", StreamPriority::normal);
  std::ranges::fill(host_, 0);
  pieces_.take(parts_);
  for (const std::uint64_t count : {1, 2, 5, 8}) {
    pieces_.until_left(count);
    device_->copy(compute, there_, zeros, std::min(kBytes, static_cast<std::int64_t>(count) * kPart));
    device_->synchronize(compute);
  }
  pieces_.finish();
  EXPECT_EQ(host_, before);
}

TEST_F(MovedState, ChangedTooEarlyIsFound) {
  pieces_.bring(parts_);
  const DeviceStream compute = device_->add_stream("compute", StreamPriority::normal);
  std::byte* const zeros = device_->allocate_pinned(kBytes);
  pieces_.take(parts_);
  pieces_.until_left(1);
  EXPECT_THROW(
      {
        device_->copy(compute, there_, zeros, 2 * kPart);
        device_->synchronize(compute);
        pieces_.finish();
      },
      std::logic_error);
}

// Three tasks change c, then a, then c again; b is only read.
TEST(StateParts, AreInTheOrderOfChanges) {
  testing::ToyGraph toy;
  const graph::View a = toy.tensor("a", 64, graph::Role::parameter), b = toy.tensor("b", 64, graph::Role::parameter),
                    c = toy.tensor("c", 64, graph::Role::optimizer_state),
                    in = toy.tensor("in", 64, graph::Role::input);
  toy.compute("first", {graph::read(b), graph::read_write(c)});
  toy.compute("second", {graph::read(b), graph::write(a), graph::write(in)});
  toy.compute("third", {graph::read(a), graph::read_write(c)});
  const auto graph = toy.build();
  const State state(std::array{graph});
  std::vector<std::unique_ptr<DevicePlan>> plans;
  plans.push_back(std::make_unique<DevicePlan>());
  DevicePlan& loaded = *plans.front();
  loaded.plan = std::make_shared<const plan::Plan>(policy::compile_plan(graph, *policy::make_policy("program")));
  for (std::size_t i = 0; i < 3; ++i) loaded.steps.emplace_back().stream = plan::StreamId(std::size_t{0});
  const PlanMemory memory{&state, state.begin(), nullptr};
  const std::vector<StatePart> parts = find_state_parts(plans, memory, 128);
  ASSERT_EQ(parts.size(), 4U) << "two of each tensor of 256 bytes";
  EXPECT_EQ(parts[0].host, state.data("c"));
  EXPECT_EQ(parts[1].host, state.data("c") + 128);
  EXPECT_EQ(parts[2].host, state.data("a"));
  EXPECT_EQ(loaded.steps[0].state_parts, 2U);
  EXPECT_EQ(loaded.steps[1].state_parts, 4U);
  EXPECT_EQ(loaded.steps[2].state_parts, 2U);
  // A fused task begins where its first part stands.
  loaded.steps[1].part_of_fused = loaded.steps[2].part_of_fused = true;
  (void)find_state_parts(plans, memory, 128);
  EXPECT_EQ(loaded.steps[0].state_parts, 4U);
}

}  // namespace
}  // namespace weft::execute
