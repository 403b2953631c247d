// The report about a step while the device runs it.
#include "runtime/execute/device/step_marks.h"

#include <gtest/gtest.h>

#include "tests/runtime/execute/device/fake_device.h"

namespace weft::execute {
namespace {

class StepMarksTest : public ::testing::Test {
 protected:
  StepMarksTest() {
    marks_.add_stream(compute_, 0, "compute0");
    marks_.add_stream(data_, 0, "data");
    marks_.add_stream(other_, 1, "compute0");
  }
  void mark(DeviceStream stream, std::string_view task) {
    const DeviceEvent event = device_->add_event(false);
    device_->record(event, stream);
    marks_.add(stream, event, task);
  }

  std::unique_ptr<testing::FakeDevice> device_ = testing::make_fake_device();
  StepMarks marks_{*device_};
  DeviceStream compute_ = device_->add_stream("compute0", StreamPriority::normal);
  DeviceStream data_ = device_->add_stream("data", StreamPriority::high);
  DeviceStream other_ = device_->add_stream("other", StreamPriority::normal);
};

TEST_F(StepMarksTest, FollowTheDevice) {
  marks_.clear();
  EXPECT_EQ(marks_.describe(0), "");
  mark(compute_, "a");
  mark(data_, "sum");
  mark(compute_, "b");
  EXPECT_EQ(marks_.passed(), 0U);
  EXPECT_EQ(marks_.describe(0), "compute0 has not yet passed 'a'; data has not yet passed 'sum'");
  device_->synchronize(compute_);
  device_->synchronize(data_);
  EXPECT_EQ(marks_.passed(), 3U);
  mark(data_, "gather");
  EXPECT_EQ(marks_.describe(0), "compute0 has passed 'b'; data has passed 'sum', not yet passed 'gather'");
  EXPECT_EQ(marks_.describe(1), "");
  mark(other_, "c");
  EXPECT_EQ(marks_.describe(1), "compute0 has not yet passed 'c'");
}

TEST_F(StepMarksTest, CountOnOverSteps) {
  for (std::uint64_t step = 1; step <= 3; ++step) {
    marks_.clear();
    mark(compute_, "a");
    device_->synchronize(compute_);
    EXPECT_EQ(marks_.passed(), step);
    EXPECT_EQ(marks_.passed(), step);
  }
  marks_.clear();
  EXPECT_EQ(marks_.describe(0), "");
  EXPECT_EQ(marks_.passed(), 3U);
}

}  // namespace
}  // namespace weft::execute
