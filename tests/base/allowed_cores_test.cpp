#include "base/allowed_cores.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(AllowedCores, OfThisProcessAreRead) {
  const AllowedCores own = allowed_cores(0), again = allowed_cores(1);
  EXPECT_GE(own.cores, 1);
  EXPECT_EQ(own.machine, again.machine);
  EXPECT_EQ(own.which, again.which);
}

}  // namespace
}  // namespace weft
