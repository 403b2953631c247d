// Errors that the fake device finds: missing orders, waits for nothing, deadlocks, captures that aren't joined.
#include "tests/runtime/execute/device/fake_device.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <set>
#include <stdexcept>
#include <thread>

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
  DeviceEvent event = device->add_event(false);
  std::byte* x = device->allocate(256);
  std::byte* y = device->allocate(256);
  std::byte* z = device->allocate(256);
};

TEST_F(FakeDeviceTest, CopiesInOrder) {
  std::memset(x, 7, 256);
  device->copy(a, y, x, 256);
  device->record(event, a);
  device->wait(b, event);
  device->copy(b, z, y, 256);
  EXPECT_EQ(fault(b), "");
  EXPECT_EQ(z[255], std::byte{7});
}

TEST_F(FakeDeviceTest, FindsAReadThatNobodyOrdered) {
  device->copy(a, y, x, 256);
  device->copy(b, z, y, 256);
  std::string text = fault(a);
  if (text.empty()) text = fault(b);
  EXPECT_NE(text.find("without an order"), std::string::npos) << text;
}

TEST_F(FakeDeviceTest, FindsAWriteBehindARead) {
  device->copy(a, y, x, 256);
  device->copy(b, x, z, 256);
  std::string text = fault(a);
  if (text.empty()) text = fault(b);
  EXPECT_NE(text.find("without an order"), std::string::npos) << text;
}

TEST_F(FakeDeviceTest, ReadsNeedNoOrder) {
  device->copy(a, y, x, 256);
  device->copy(b, z, x, 256);
  EXPECT_EQ(fault(a) + fault(b), "");
}

TEST_F(FakeDeviceTest, OtherBytesNeedNoOrder) {
  device->copy(a, x, z, 128);
  device->copy(b, x + 128, z, 128);
  EXPECT_EQ(fault(a) + fault(b), "");
}

TEST_F(FakeDeviceTest, AHostThatHasWaitedIsAnOrder) {
  device->copy(a, y, x, 256);
  EXPECT_EQ(fault(a), "");
  device->copy(b, z, y, 256);
  EXPECT_EQ(fault(b), "");
}

TEST_F(FakeDeviceTest, AnEventRecordedAgainDoesNotOrderWhatCameLater) {
  device->record(event, a);
  device->wait(b, event);  // of the first record
  device->copy(a, y, x, 256);
  device->record(event, a);
  device->copy(b, z, y, 256);
  std::string text = fault(a);
  if (text.empty()) text = fault(b);
  EXPECT_NE(text.find("without an order"), std::string::npos) << text;
}

TEST_F(FakeDeviceTest, FindsAWaitForAnEventNeverRecorded) {
  device->wait(b, event);
  EXPECT_NE(fault(b).find("never recorded"), std::string::npos);
}

TEST_F(FakeDeviceTest, ACaptureRunsWhenItIsLaunched) {
  std::memset(x, 9, 256);
  device->begin_capture(a);
  device->copy(a, y, x, 256);
  device->record(event, a);
  device->wait(b, event);
  device->copy(b, z, y, 256);
  const DeviceEvent end = device->add_event(false);
  device->record(end, b);
  device->wait(a, end);
  const DeviceGraph graph = device->end_capture(a);
  EXPECT_EQ(fault(a), "");
  EXPECT_EQ(z[0], std::byte{0xff});  // nothing has run
  for (int i = 0; i < 3; ++i) device->launch(a, graph);
  EXPECT_EQ(fault(a), "");
  EXPECT_EQ(z[0], std::byte{9});
  EXPECT_EQ(device->counts().graphs_launched, 3);
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

TEST_F(FakeDeviceTest, SumsInOrder) {
  auto* const numbers = reinterpret_cast<float*>(x);
  auto* const others = reinterpret_cast<float*>(y);
  numbers[0] = 1e8F, others[0] = 1;
  const void* sources[] = {x, y};
  device->sum(a, sources, z, 1, DType::f32);
  EXPECT_EQ(fault(a), "");
  EXPECT_EQ(*reinterpret_cast<float*>(z), 1e8F + 1);
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

TEST_F(FakeDeviceTest, AStreamWaitsForTheHost) {
  std::memset(x, 7, 256);
  std::atomic<std::uint32_t> flag = 0xffffffff;  // rises, and may wrap
  device->copy(a, y, x, 256);
  device->record(event, a);
  device->wait_value(a, &flag, 1);
  device->copy(a, z, y, 256);
  const DeviceEvent end = device->add_event(false);
  device->record(end, a);
  EXPECT_FALSE(device->done(end));
  EXPECT_TRUE(device->passed(event));
  EXPECT_EQ(y[255], std::byte{7});
  EXPECT_NE(z[255], std::byte{7});
  {
    std::jthread host([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      flag.store(2);
    });
    EXPECT_EQ(fault(a), "");
  }
  EXPECT_EQ(z[255], std::byte{7});
  EXPECT_TRUE(device->done(end));
}

TEST_F(FakeDeviceTest, TheHostWaitsForAnEventAndNoFurther) {
  std::memset(x, 7, 256);
  device->copy(a, y, x, 256);
  device->record(event, a);
  device->copy(a, z, y, 256);
  device->synchronize(event);
  EXPECT_EQ(y[255], std::byte{7});
  EXPECT_NE(z[255], std::byte{7});
  EXPECT_EQ(device->counts().drains, 0);
  // Work whose end the host has seen precedes all work that it enqueues later.
  device->copy(b, x, y, 256);
  device->synchronize(b);
  device->synchronize(a);
  EXPECT_GT(device->counts().drains, 0);
}

TEST_F(FakeDeviceTest, AnEventThatNeverPassesIsADeadlock) {
  std::atomic<std::uint32_t> flag = 0;
  const auto impatient = testing::make_fake_device({.patience = std::chrono::seconds(0)});
  const DeviceStream stream = impatient->add_stream("a", StreamPriority::normal);
  const DeviceEvent end = impatient->add_event(false);
  impatient->wait_value(stream, &flag, 1);
  impatient->record(end, stream);
  EXPECT_THROW(impatient->synchronize(end), std::logic_error);
}

TEST_F(FakeDeviceTest, AnEventRecordedAgainHasNotPassed) {
  device->record(event, a);
  EXPECT_FALSE(device->passed(event));
  EXPECT_EQ(fault(a), "");
  EXPECT_TRUE(device->passed(event));
  device->record(event, a);
  EXPECT_FALSE(device->passed(event));
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

TEST(FakeDevice, TimesAreOfTimedEventsThatPassed) {
  const auto device = testing::make_fake_device();
  const DeviceStream stream = device->add_stream("s", StreamPriority::normal);
  const DeviceEvent from = device->add_event(true), to = device->add_event(true);
  device->record(from, stream);
  device->record(to, stream);
  device->synchronize(stream);
  EXPECT_GT(device->elapsed_ns(from, to), 0);
  EXPECT_NO_THROW(device->synchronize(stream));
  device->elapsed_ns(from, device->add_event(false));
  EXPECT_THROW(device->synchronize(stream), std::logic_error);
}

}  // namespace
}  // namespace weft::execute
