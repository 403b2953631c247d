#include "base/files/made_folders.h"

#include <gtest/gtest.h>

#include "tests/base/temporary_folder.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

TEST(MadeFolders, AreGoneWhereNothingIsInThem) {
  const testing::TemporaryFolder folder;
  fs::create_directory(folder.path("there"));
  {
    MadeFolders made;
    std::error_code error;
    EXPECT_TRUE(made.make(folder.path("there/a/b"), error));
    EXPECT_FALSE(error);
    EXPECT_TRUE(fs::is_directory(folder.path("there/a/b")));
    EXPECT_FALSE(made.make(folder.path("there/a/b"), error));  // not new the second time
    EXPECT_FALSE(error);
  }
  EXPECT_TRUE(fs::is_directory(folder.path("there")));
  EXPECT_FALSE(fs::exists(folder.path("there/a")));
}

TEST(MadeFolders, StayWithWhatWasPutThere) {
  const testing::TemporaryFolder folder;
  {
    MadeFolders made;
    std::error_code error;
    EXPECT_TRUE(made.make(folder.path("a/b"), error));
    folder.write("a/file", "kept");
  }
  EXPECT_FALSE(fs::exists(folder.path("a/b")));
  EXPECT_EQ(testing::TemporaryFolder::read(folder.path("a/file")), "kept");
}

TEST(MadeFolders, AFileInTheWayIsAnError) {
  const testing::TemporaryFolder folder;
  folder.write("file", "");
  for (const char* path : {"file", "file/below"}) {
    MadeFolders made;
    std::error_code error;
    EXPECT_FALSE(made.make(folder.path(path), error));
    EXPECT_EQ(error, std::errc::not_a_directory) << path;
  }
}

}  // namespace
}  // namespace weft
