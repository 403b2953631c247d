// Space needed against space free.
#include "base/files/free_space.h"

#include <gtest/gtest.h>
#include <sys/statvfs.h>

#include <vector>

#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"

namespace weft {
namespace {

TEST(CheckSpace, CountsWholeBlocks) {
  const testing::TemporaryFolder folder;
  struct statvfs status {};
  ASSERT_EQ(statvfs(folder.path().c_str(), &status), 0);
  const std::uint64_t block = status.f_frsize;
  const std::vector<std::uint64_t> sizes = {0, 1, block, block + 1};
  const SpaceCheck check = check_space(folder.path(), sizes);
  EXPECT_EQ(check.needed, (2 + 0 + 1 + 1 + 2) * block);
  EXPECT_TRUE(check.fits());
}

TEST(CheckSpace, AsksTheNearestFolderThatExists) {
  const testing::TemporaryFolder folder;
  EXPECT_EQ(check_space(folder.path("a/b/c"), {}).where, folder.path());
  EXPECT_TRUE(std::filesystem::exists(check_space("relative/folder", {}).where));
}

TEST(CheckSpace, WhatDoesNotFitNamesBothSizes) {
  const testing::TemporaryFolder folder;
  const std::vector<std::uint64_t> sizes = {std::uint64_t{1} << 60};
  const SpaceCheck check = check_space(folder.path(), sizes);
  EXPECT_FALSE(check.fits());
  EXPECT_TRUE(has_parts(check.text(), {"needs " + std::to_string(check.needed) + " bytes", folder.path().string(),
                                       "has " + std::to_string(check.free) + " bytes"}));
}

}  // namespace
}  // namespace weft
