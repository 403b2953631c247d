// A folder appears complete or not at all.
#include "base/files/durable_folder.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/error.h"
#include "base/files/durable_file.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"

namespace weft {
namespace {

std::ptrdiff_t entries(const std::filesystem::path& folder) {
  return std::distance(std::filesystem::directory_iterator(folder), {});
}

TEST(DurableFolder, AppearsOnCommit) {
  const testing::TemporaryFolder folder;
  DurableFolder made(folder.path("above/it"));
  write_durable(made.path() / "file", "text");
  EXPECT_FALSE(std::filesystem::exists(folder.path("above/it")));
  made.commit();
  EXPECT_EQ(testing::TemporaryFolder::read(folder.path("above/it/file")), "text");
  EXPECT_EQ(entries(folder.path("above")), 1);
}

TEST(DurableFolder, TakesThePlaceOfAnOlderOneWhenItIsCommitted) {
  const testing::TemporaryFolder folder;
  folder.write("it/old", "old");
  for (const bool commits : {false, true}) {
    DurableFolder made(folder.path("it"));
    write_durable(made.path() / "new", "new");
    EXPECT_EQ(testing::TemporaryFolder::read(folder.path("it/old")), "old");
    if (commits) made.commit();
  }
  EXPECT_FALSE(std::filesystem::exists(folder.path("it/old")));
  EXPECT_EQ(testing::TemporaryFolder::read(folder.path("it/new")), "new");
  EXPECT_EQ(entries(folder.path()), 1);
}

TEST(DurableFolder, BeginsEmptyAfterAKill) {
  const testing::TemporaryFolder folder;
  folder.write(".writing_it/half", "half");
  DurableFolder made(folder.path("it"));
  EXPECT_EQ(entries(made.path()), 0);
}

TEST(DurableFolder, ALinkUnderItsTemporaryNameIsNotFilled) {
  const testing::TemporaryFolder folder;
  folder.write("victim/precious", "");
  std::filesystem::create_directory_symlink(folder.path("victim"), folder.path(".writing_it"));
  DurableFolder made(folder.path("it"));
  write_durable(made.path() / "new", "new");
  made.commit();
  EXPECT_EQ(entries(folder.path("victim")), 1);
  EXPECT_EQ(entries(folder.path("it")), 1);
}

TEST(DurableFolder, AFaultNamesTheFolder) {
  const testing::TemporaryFolder folder;
  folder.write("file", "");
  EXPECT_TRUE(refuses<RuntimeFault>([&] { DurableFolder made(folder.path("file/it")); },
                                    {"file/it' can't be written", "Not a directory"}));
}

TEST(RemoveFolder, RemovesAllOfItAndNothingElse) {
  const testing::TemporaryFolder folder;
  folder.write("it/a/b", "");
  folder.write("other", "");
  EXPECT_TRUE(remove_folder(folder.path("it")));
  EXPECT_FALSE(remove_folder(folder.path("it")));
  EXPECT_EQ(entries(folder.path()), 1);
}

TEST(RemoveLeftovers, KeepsWhatHasAName) {
  const testing::TemporaryFolder folder;
  folder.write(".writing_a/file", "");
  folder.write(".removing_b", "");
  folder.write(".other/file", "");
  folder.write("a/file", "");
  remove_leftovers(folder.path());
  EXPECT_EQ(entries(folder.path()), 2);
  remove_leftovers(folder.path("none"));  // nothing to do
}

TEST(DurableFolder, MovesItsFilesBesideOthersOrNone) {
  const testing::TemporaryFolder place;
  place.write("there/other", "mine");
  {
    DurableFolder folder(place.path("there/new"));
    write_durable(folder.path() / "a", "first");
    write_durable(folder.path() / "b", "second");
    folder.move_files_to(place.path("there"));
  }
  EXPECT_EQ(testing::TemporaryFolder::read(place.path("there/a")), "first");
  EXPECT_EQ(testing::TemporaryFolder::read(place.path("there/b")), "second");
  {
    DurableFolder folder(place.path("there/new"));
    write_durable(folder.path() / "c", "third");
    write_durable(folder.path() / "d", "fourth");
    write_durable(folder.path() / "other", "not mine");
    EXPECT_THROW(folder.move_files_to(place.path("there")), RuntimeFault);
  }
  EXPECT_EQ(testing::TemporaryFolder::read(place.path("there/other")), "mine");
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(place.path("there"))) {
    names.insert(entry.path().filename().string());
  }
  EXPECT_EQ(names, (std::set<std::string>{"a", "b", "other"}));
}

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
