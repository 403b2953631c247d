// The status of a team's step for a watchdog, with marks and as a captured graph.
#include "runtime/execute/device/step_watch.h"

#include <gtest/gtest.h>

#include "tests/runtime/execute/device/fake_device.h"

namespace weft::execute {
namespace {

using Marking = StepWatch::Marking;

class StepWatchTest : public ::testing::Test {
 protected:
  StepWatchTest() {
    watch_.add_stream(stream_, 0, "compute0");
    watch_.add_stream(data_, 0, "data");
    watch_.add_stream(other_, 1, "compute0");
  }
  void mark(DeviceStream stream, std::string_view task) {
    const DeviceEvent event = device_->add_event(false);
    device_->record(event, stream);
    watch_.mark(stream, event, task);
  }
  std::unique_ptr<testing::FakeDevice> device_ = testing::make_fake_device();
  StepWatch watch_{*device_};
  DeviceStream stream_ = device_->add_stream("compute0", StreamPriority::normal);
  DeviceStream data_ = device_->add_stream("data", StreamPriority::high);
  DeviceStream other_ = device_->add_stream("other", StreamPriority::normal);
};

TEST_F(StepWatchTest, StepsBeginAndFinish) {
  EXPECT_FALSE(watch_.status().running);
  EXPECT_EQ(watch_.describe(0), "between steps");
  watch_.begin(steady_now(), 0);
  watch_.begin(steady_now(), 0);
  EXPECT_TRUE(watch_.status().running);
  EXPECT_EQ(watch_.describe(0), "the device is running a step, for 0.0 s");
  watch_.finish(false);
  EXPECT_TRUE(watch_.status().running);
  EXPECT_EQ(watch_.status().completed, 1U);
  watch_.finish(true);
  EXPECT_FALSE(watch_.status().running);
  EXPECT_EQ(watch_.status().completed, 2U);
}

TEST_F(StepWatchTest, MarksCountAsProgressUnlessNoneAreMade) {
  watch_.begin(steady_now(), 0);
  watch_.clear(Marking::none);
  EXPECT_FALSE(watch_.marks_all());
  mark(stream_, "a");
  device_->synchronize(stream_);
  EXPECT_EQ(watch_.status().completed, 0U);
  watch_.clear(Marking::signals);
  EXPECT_FALSE(watch_.marks_all());
  mark(stream_, "b");
  device_->synchronize(stream_);
  EXPECT_EQ(watch_.status().completed, 1U);
  watch_.clear(Marking::all);
  EXPECT_TRUE(watch_.marks_all());
  mark(stream_, "c");
  EXPECT_EQ(watch_.describe(0), "the device is running a step, for 0.0 s; compute0 has not yet passed 'c'");
}

TEST_F(StepWatchTest, MarksFollowTheDeviceAndCountOnOverSteps) {
  const std::string running = "the device is running a step, for 0.0 s";
  watch_.begin(steady_now(), 0);
  watch_.clear(Marking::all);
  EXPECT_EQ(watch_.describe(0), running);
  mark(stream_, "a");
  mark(data_, "sum");
  mark(stream_, "b");
  EXPECT_EQ(watch_.status().completed, 0U);
  EXPECT_EQ(watch_.describe(0), running + "; compute0 has not yet passed 'a'; data has not yet passed 'sum'");
  device_->synchronize(stream_);
  device_->synchronize(data_);
  EXPECT_EQ(watch_.status().completed, 3U);
  mark(data_, "gather");
  EXPECT_EQ(watch_.describe(0), running + "; compute0 has passed 'b'; data has passed 'sum', not yet passed 'gather'");
  EXPECT_EQ(watch_.describe(1), running);
  mark(other_, "c");
  EXPECT_EQ(watch_.describe(1), running + "; compute0 has not yet passed 'c'");
  for (std::uint64_t step = 1; step <= 3; ++step) {
    watch_.clear(Marking::all);
    mark(stream_, "a");
    device_->synchronize(stream_);
    EXPECT_EQ(watch_.status().completed, 3 + step);
    EXPECT_EQ(watch_.status().completed, 3 + step);
  }
  watch_.clear(Marking::all);
  EXPECT_EQ(watch_.describe(0), running);
}

// Every query counts as progress until the step is due.
TEST_F(StepWatchTest, AReplayedStepIsGivenTime) {
  watch_.begin(steady_now(), steady_now() + 3'600'000'000'000);
  const std::uint64_t first = watch_.status().completed, second = watch_.status().completed;
  EXPECT_LT(first, second);
  EXPECT_EQ(watch_.describe(0), "the device is running a step, for 0.0 s, as one captured graph");
  watch_.begin(steady_now(), 1);
  EXPECT_EQ(watch_.status().completed, second);
}

}  // namespace
}  // namespace weft::execute
