// Varies all orders by GoogleTest's own flags: --gtest_shuffle --gtest_random_seed=7.
#include <gtest/gtest.h>

#include <cstdint>

#include "tests/gpu/emulator/gpu.h"

namespace weft::emulator {
namespace {

class SeedEnvironment : public ::testing::Environment {
 public:
  void SetUp() override { set_seed(static_cast<std::uint64_t>(::testing::UnitTest::GetInstance()->random_seed())); }
};

const ::testing::Environment* const environment = ::testing::AddGlobalTestEnvironment(new SeedEnvironment);

}  // namespace
}  // namespace weft::emulator
