#include "base/process_memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace weft {
namespace {

TEST(ProcessMemory, CountsPagesThatAreWritten) {
  constexpr std::int64_t kBytes = 64 << 20;
  const std::int64_t before = resident_bytes();
  ASSERT_GT(before, 0);
  std::vector<char> pages(kBytes);
  std::memset(pages.data(), 1, pages.size());
  EXPECT_EQ(pages.back(), 1);
  EXPECT_GE(resident_bytes() - before, kBytes * 9 / 10);
  EXPECT_GE(peak_resident_bytes(), before + kBytes * 9 / 10);
}

}  // namespace
}  // namespace weft
