// Buffers: zeroed, aligned, with one owner; a refusal names the size.
#include "base/buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tests/base/messages.h"

namespace weft {
namespace {

TEST(Buffer, IsZeroedAndPageAligned) {
  const Buffer buffer(100'000);
  EXPECT_EQ(buffer.size(), 100'000);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 4096, 0U);
  EXPECT_TRUE(std::all_of(buffer.data(), buffer.data() + buffer.size(), [](std::byte b) { return b == std::byte{}; }));
}

TEST(Buffer, MovesKeepTheAddress) {
  Buffer first(64);
  first.data()[63] = std::byte{7};
  const std::byte* address = first.data();
  const Buffer second = std::move(first);
  EXPECT_EQ(second.data(), address);
  EXPECT_EQ(second.size(), 64);
  EXPECT_EQ(second.data()[63], std::byte{7});
}

TEST(Buffer, OfNothingIsEmpty) {
  EXPECT_EQ(Buffer().size(), 0);
  EXPECT_EQ(Buffer(0).size(), 0);
  EXPECT_EQ(Buffer(0).data(), nullptr);
}

TEST(Buffer, NamesTheSizeThatTheSystemRefused) {
  EXPECT_TRUE(refuses<RuntimeFault>([] { const Buffer buffer(std::int64_t{1} << 60); }, {"1152921504606846976 bytes"}));
}

TEST(ProcessMemory, CountsPagesThatAreWritten) {
  constexpr std::int64_t kBytes = 64 << 20;
  const std::int64_t before = resident_bytes();
  ASSERT_GT(before, 0);
  std::vector<char> pages(kBytes);
  std::memset(pages.data(), 1, pages.size());
  EXPECT_EQ(pages.back(), 1);
  EXPECT_GE(resident_bytes() - before, kBytes * 9 / 10);
  EXPECT_GE(peak_resident_bytes(), before + kBytes * 9 / 10);
  EXPECT_GE(machine_memory_bytes(), static_cast<double>(before));
}

}  // namespace
}  // namespace weft
