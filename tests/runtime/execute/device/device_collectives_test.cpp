// Collectives between ranks of one device, on the fake: the right numbers, in rank order, and no byte without an order.
#include "runtime/execute/device/device_collectives.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/runtime/execute/device/fake_device.h"

namespace weft::execute {
namespace {

class DeviceCollectives : public ::testing::TestWithParam<int> {
 protected:
  static constexpr std::int64_t kCount = 7;  // no multiple of the ranks

  DeviceCollectives() {
    for (int r = 0; r < ranks_; ++r) {
      streams_.push_back(device_->add_stream("rank", StreamPriority::high));
      for (auto* buffers : {&in_, &out_, &workspace_}) {
        buffers->push_back(reinterpret_cast<float*>(device_->allocate(kCount * ranks_ * 4)));
      }
      for (std::int64_t i = 0; i < kCount * ranks_; ++i) {
        in_.back()[i] = out_.back()[i] = static_cast<float>(100 * r + i);
      }
    }
  }

  void run(comm::CollectiveKind kind, std::int64_t root = 0) {
    DeviceGroup group(*device_, streams_.size());
    std::vector<GroupMember> members;
    for (std::size_t r = 0; r < streams_.size(); ++r) {
      members.push_back({streams_[r], {kind, DType::f32, kCount, root, in_[r], out_[r], workspace_[r]}});
    }
    group.enqueue(*device_, members);
    for (const DeviceStream stream : streams_) device_->synchronize(stream);  // throws where an order is missing
  }

  float sum_at(std::int64_t i) const {
    float sum = 0;
    for (int r = 0; r < ranks_; ++r) sum += static_cast<float>(100 * r + i);
    return sum;
  }

  const int ranks_ = GetParam();
  std::unique_ptr<testing::FakeDevice> device_ = testing::make_fake_device({.seed = 5});
  std::vector<DeviceStream> streams_;
  std::vector<float*> in_, out_, workspace_;
};

TEST_P(DeviceCollectives, AllReduce) {
  run(comm::CollectiveKind::all_reduce);
  for (const float* out : out_) {
    for (std::int64_t i = 0; i < kCount; ++i) EXPECT_EQ(out[i], sum_at(i));
  }
}

TEST_P(DeviceCollectives, ReduceScatter) {
  run(comm::CollectiveKind::reduce_scatter);
  for (std::size_t r = 0; r < out_.size(); ++r) {
    for (std::int64_t i = 0; i < kCount; ++i) {
      EXPECT_EQ(out_[r][i], sum_at(static_cast<std::int64_t>(r) * kCount + i));
    }
  }
}

TEST_P(DeviceCollectives, AllGather) {
  run(comm::CollectiveKind::all_gather);
  for (const float* out : out_) {
    for (std::int64_t i = 0; i < kCount * ranks_; ++i) {
      const std::int64_t rank = i / kCount, place = i % kCount;
      EXPECT_EQ(out[i], static_cast<float>(100 * rank + place));
    }
  }
}

TEST_P(DeviceCollectives, Broadcast) {
  const std::int64_t root = ranks_ - 1;
  run(comm::CollectiveKind::broadcast, root);
  for (const float* out : out_) {
    for (std::int64_t i = 0; i < kCount; ++i) EXPECT_EQ(out[i], static_cast<float>(100 * root + i));
  }
}

TEST_P(DeviceCollectives, RefusesMembersThatDiffer) {
  if (ranks_ == 1) return;
  DeviceGroup group(*device_, streams_.size());
  std::vector<GroupMember> members;
  for (std::size_t r = 0; r < streams_.size(); ++r) {
    const auto count = static_cast<std::int64_t>(r) + 1;
    members.push_back(
        {streams_[r], {comm::CollectiveKind::all_gather, DType::f32, count, 0, in_[r], out_[r], workspace_[r]}});
  }
  EXPECT_THROW(group.enqueue(*device_, members), std::logic_error);
}

INSTANTIATE_TEST_SUITE_P(Ranks, DeviceCollectives, ::testing::Values(1, 2, 3, 4));

}  // namespace
}  // namespace weft::execute
