// The intersection of byte windows, and conflicts of accesses.
#include "runtime/execute/device/access_log.h"

#include <gtest/gtest.h>

namespace weft::execute {
namespace {

class AccessLogTest : public ::testing::Test {
 protected:
  ByteWindow bytes(std::int64_t begin, std::int64_t count) const { return {memory_ + begin, 1, count, count}; }
  ByteWindow columns(std::int64_t begin, std::int64_t count) const { return {memory_ + begin, 10, count, 100}; }

  AccessLog log_;

 private:
  std::byte memory_[20000] = {};
};

TEST_F(AccessLogTest, WindowsOfEqualStrideMeetByColumns) {
  EXPECT_TRUE(overlap(columns(0, 40), columns(30, 40)));
  EXPECT_FALSE(overlap(columns(0, 40), columns(40, 40)));
  EXPECT_FALSE(overlap(columns(40, 40), columns(100, 40)));
  EXPECT_TRUE(overlap(columns(80, 20), columns(190, 5)));
  EXPECT_TRUE(overlap(columns(0, 40), bytes(250, 1)));  // conservative: between the rows of a contiguous one
  EXPECT_FALSE(overlap(bytes(0, 10), bytes(10, 10)));
}

TEST_F(AccessLogTest, AnOrderedAccessIsNoConflict) {
  EXPECT_FALSE(log_.add(bytes(0, 9000), true, {0, 1, "write"}, {1, 0}));
  EXPECT_FALSE(log_.add(bytes(5000, 10), false, {1, 1, "read"}, {1, 1}));
  EXPECT_FALSE(log_.add(bytes(5000, 10), true, {0, 2, "again"}, {2, 1}));
}

TEST_F(AccessLogTest, NamesTheConflict) {
  EXPECT_FALSE(log_.add(bytes(0, 100), true, {0, 1, "write"}, {1, 0}));
  EXPECT_EQ(log_.add(bytes(50, 10), false, {1, 1, "read"}, {0, 1}), "write");
}

TEST_F(AccessLogTest, RemembersEveryReader) {
  EXPECT_FALSE(log_.add(bytes(0, 100), false, {0, 1, "first"}, {1, 0, 0}));
  EXPECT_FALSE(log_.add(bytes(0, 100), false, {1, 1, "second"}, {0, 1, 0}));
  EXPECT_EQ(log_.add(bytes(0, 100), true, {2, 1, "write"}, {1, 0, 1}), "second");
}

TEST_F(AccessLogTest, AReadBehindAWriteDoesNotHideIt) {
  EXPECT_FALSE(log_.add(bytes(0, 100), true, {0, 1, "write"}, {1, 0, 0}));
  EXPECT_FALSE(log_.add(bytes(0, 100), false, {1, 1, "read"}, {1, 1, 0}));
  EXPECT_EQ(log_.add(bytes(0, 100), false, {2, 1, "other"}, {0, 0, 1}), "write");
}

}  // namespace
}  // namespace weft::execute
