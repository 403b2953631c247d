// Errors that the fake device finds: missing orders, waits for nothing, deadlocks, captures that aren't joined.
#include "tests/runtime/execute/device/fake_device.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <set>
#include <stdexcept>

#include "base/error.h"
#include "tests/base/messages.h"

namespace weft::execute {
namespace {

class FakeDeviceTest : public ::testing::Test {
 protected:
  // The error of synchronize(); "" if there is none.
  std::string fault(DeviceStream stream) {
    return testing::message_of<std::logic_error>([&] { device->synchronize(stream); });
  }

  std::unique_ptr<testing::FakeDevice> device = testing::make_fake_device({.seed = 3});
  DeviceStream a = device->add_stream("a", StreamPriority::normal);
  DeviceStream b = device->add_stream("b", StreamPriority::high);
  DeviceStream c = device->add_stream("c", StreamPriority::normal);
  DeviceEvent event = device->add_event(false);
  std::byte* x = device->allocate(256);
  std::byte* y = device->allocate(256);
  std::byte* z = device->allocate(256);
};

TEST_F(FakeDeviceTest, FindsAReadThatNobodyOrdered) {
  device->copy(a, y, x, 256);
  device->copy(b, z, y, 256);
  EXPECT_TRUE(has_parts(fault(a) + fault(b), {"without an order"}));
}

TEST_F(FakeDeviceTest, FindsAWriteBehindARead) {
  device->copy(a, y, x, 256);
  device->copy(b, x, z, 256);
  EXPECT_TRUE(has_parts(fault(a) + fault(b), {"without an order"}));
}

TEST_F(FakeDeviceTest, RemembersEveryReader) {
  device->copy(a, y, x, 256);
  device->copy(b, z, x, 256);
  device->record(event, b);
  device->wait(c, event);
  device->sum(c, std::array<const void*, 1>{z}, x, 64, DType::f32);
  EXPECT_TRUE(has_parts(fault(a) + fault(b) + fault(c), {"without an order"})) << "a's read";
}

TEST_F(FakeDeviceTest, AReadBehindAWriteDoesNotHideIt) {
  for (const bool unordered : {false, true}) {
    device->copy(a, y, x, 256);
    device->record(event, a);
    device->wait(b, event);
    device->copy(b, z, y, 256);
    if (unordered) device->copy(c, device->allocate(256), y, 256);
    const std::string faults = fault(a) + fault(b) + fault(c);
    EXPECT_EQ(faults.find("without an order") != std::string::npos, unordered) << faults;
  }
}

TEST_F(FakeDeviceTest, AnEventRecordedAgainDoesNotOrderWhatCameLater) {
  device->record(event, a);
  device->wait(b, event);  // of the first record
  device->copy(a, y, x, 256);
  device->record(event, a);
  device->copy(b, z, y, 256);
  EXPECT_TRUE(has_parts(fault(a) + fault(b), {"without an order"}));
}

TEST_F(FakeDeviceTest, FindsAWaitForAnEventNeverRecorded) {
  device->wait(b, event);
  EXPECT_NE(fault(b).find("never recorded"), std::string::npos);
}

TEST_F(FakeDeviceTest, FindsACaptureThatIsNotJoined) {
  device->begin_capture(a);
  device->record(event, a);
  device->wait(b, event);
  device->copy(b, z, y, 256);
  device->end_capture(a);
  EXPECT_NE(fault(a).find("isn't joined"), std::string::npos);
}

TEST_F(FakeDeviceTest, AQuestionSpoilsACapture) {
  device->record(event, a);
  device->begin_capture(a);
  EXPECT_NO_THROW(device->passed(event));  // recorded before
  device->copy(a, y, x, 256);
  EXPECT_NO_THROW(device->end_capture(a));
  device->begin_capture(a);
  device->record(event, a);
  EXPECT_THROW(device->passed(event), RuntimeFault);
  EXPECT_THROW(device->end_capture(a), RuntimeFault);
  EXPECT_THROW(device->done(event), RuntimeFault) << "until it is recorded anew";
  device->record(event, a);
  EXPECT_EQ(fault(a), "");
  EXPECT_TRUE(device->passed(event));
}

TEST(FakeDevice, SeedsGiveDifferentOrders) {
  std::set<std::uint64_t> orders;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto device = testing::make_fake_device({.seed = seed});
    std::vector<DeviceStream> streams;
    for (int s = 0; s < 3; ++s) streams.push_back(device->add_stream("s", StreamPriority::normal));
    std::byte* const memory = device->allocate(3 * 256);
    for (int i = 0; i < 4; ++i) {
      for (int s = 0; s < 3; ++s)
        device->copy(streams[static_cast<std::size_t>(s)], memory + s * 256, memory + s * 256, 8);
    }
    for (const DeviceStream stream : streams) device->synchronize(stream);
    orders.insert(device->order_hash());
  }
  EXPECT_GT(orders.size(), 15U);
}

TEST_F(FakeDeviceTest, AGraphDoesNotWaitForTheHost) {
  std::atomic<std::uint32_t> flag = 1;
  device->begin_capture(a);
  device->wait_value(a, &flag, 1);
  device->end_capture(a);
  EXPECT_NE(fault(a).find("inside of a capture"), std::string::npos);
}

TEST(FakeDevice, AValueThatNobodyStoresIsADeadlock) {
  const auto device = testing::make_fake_device({.seed = 1, .patience = std::chrono::seconds(0)});
  const DeviceStream stream = device->add_stream("s", StreamPriority::normal);
  const std::atomic<std::uint32_t> flag = 0;
  device->wait_value(stream, &flag, 1);
  EXPECT_THROW(device->synchronize(stream), std::logic_error);
}

}  // namespace
}  // namespace weft::execute
