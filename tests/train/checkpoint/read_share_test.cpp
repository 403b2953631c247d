#include "train/checkpoint/read_share.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/base/temporary_folder.h"
#include "tests/runtime/comm/ranks.h"

namespace weft::train {
namespace {

TEST(ReadShare, IsAmongRanksThatSeeTheSameFile) {
  const testing::TemporaryFolder folder;
  folder.write("a/file", "equal");
  folder.write("b/file", "equal");
  std::filesystem::create_symlink("a", folder.path("link"));
  // Rank 3 reaches the folder of ranks 0 and 2 by another name; rank 4 sees none.
  constexpr std::array kFolders = {"a", "b", "a", "link", "none"};
  constexpr std::array<std::array<int, 2>, 5> kExpected = {{{0, 3}, {0, 1}, {1, 3}, {2, 3}, {0, 1}}};
  testing::on_ranks(5, [&](comm::World& world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    const ReadShare share = share_reading(world, folder.path(kFolders[rank]));
    EXPECT_EQ(share.rank, kExpected[rank][0]) << rank;
    EXPECT_EQ(share.ranks, kExpected[rank][1]) << rank;
  });
}

}  // namespace
}  // namespace weft::train
