// Collectives between ranks of one device, on the fake: the right numbers, in rank order, and no byte without an order.
#include "runtime/execute/device/device_collectives.h"

#include <gtest/gtest.h>

#include <deque>
#include <stdexcept>

#include "tests/runtime/comm/collectives_check.h"
#include "tests/runtime/execute/device/fake_device.h"

namespace weft::execute {
namespace {

class DeviceCollectives : public ::testing::TestWithParam<int> {
 protected:
  static constexpr std::int64_t kCount = 7;  // no multiple of the ranks

  DeviceCollectives() {
    for (int r = 0; r < GetParam(); ++r) streams_.push_back(device_->add_stream("rank", StreamPriority::high));
  }

  template <class T>
  void run(comm::CollectiveKind kind, DType dtype, bool in_place) {
    std::deque<test::Case<T>> cases;
    std::vector<GroupMember> members;
    for (int r = 0; r < GetParam(); ++r) {
      cases.emplace_back(kind, dtype, r, GetParam(), kCount, GetParam() - 1, in_place, /*salt=*/3);
      members.push_back({streams_[static_cast<std::size_t>(r)], cases.back().call()});
    }
    group_.enqueue(*device_, members);
    for (const DeviceStream stream : streams_) device_->synchronize(stream);  // throws where an order is missing
    Fingerprint ignored;
    for (const test::Case<T>& of : cases) EXPECT_EQ(of.check(ignored), "");
  }

  std::unique_ptr<testing::FakeDevice> device_ = testing::make_fake_device({.seed = 5});
  std::vector<DeviceStream> streams_;
  DeviceGroup group_{*device_, static_cast<std::size_t>(GetParam())};
};

TEST_P(DeviceCollectives, HaveThePromisedBits) {
  for (const comm::CollectiveKind kind : test::kAllKinds) {
    for (const bool in_place : {false, true}) {
      run<float>(kind, DType::f32, in_place);
      run<bf16>(kind, DType::bf16, in_place);
      run<std::int32_t>(kind, DType::i32, in_place);
    }
  }
}

TEST_P(DeviceCollectives, RowsGoToTheirExpertsAndComeBack) {
  for (const test::RowShares shares : {test::RowShares::uneven, test::RowShares::all_to_one}) {
    for (const std::int64_t rows : {0, 1, 5, 61}) {
      std::deque<test::RowsCase<bf16>> cases;
      std::vector<GroupMember> there, back;
      for (int r = 0; r < GetParam(); ++r) {
        cases.emplace_back(DType::bf16, r, GetParam(), 7, rows, shares, /*salt=*/5);
        there.push_back({streams_[static_cast<std::size_t>(r)], cases.back().there()});
        back.push_back({there.back().stream, cases.back().back()});
      }
      group_.enqueue(*device_, there);
      group_.enqueue(*device_, back);
      for (const DeviceStream stream : streams_) device_->synchronize(stream);
      Fingerprint ignored;
      for (test::RowsCase<bf16>& of : cases) EXPECT_EQ(of.check(ignored), "");
    }
  }
}

TEST_P(DeviceCollectives, RefusesMembersThatDiffer) {
  if (GetParam() == 1) return;
  std::vector<GroupMember> members;
  for (const DeviceStream stream : streams_) {
    members.push_back({stream, {comm::CollectiveKind::all_gather, DType::f32, std::ssize(members) + 1}});
  }
  EXPECT_THROW(group_.enqueue(*device_, members), std::logic_error);
}

INSTANTIATE_TEST_SUITE_P(Ranks, DeviceCollectives, ::testing::Values(1, 2, 3, 4));

}  // namespace
}  // namespace weft::execute
