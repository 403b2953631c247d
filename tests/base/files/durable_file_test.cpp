// A file or a folder appears complete or not at all.
#include "base/files/durable_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::ptrdiff_t entries(const fs::path& folder) {
  return std::distance(fs::directory_iterator(folder), {});
}

TEST(DurableFile, AppearsOnCommit) {
  const testing::TemporaryFolder folder;
  for (const bool commits : {false, true}) {
    DurableFile file(folder.path("a"));
    file.write(bytes("one "));
    file.write(bytes("two"));
    EXPECT_FALSE(fs::exists(folder.path("a")));
    if (commits) file.commit();
  }
  EXPECT_EQ(testing::TemporaryFolder::read(folder.path("a")), "one two");
  EXPECT_EQ(entries(folder.path()), 1);
}

TEST(DurableFile, AFaultNamesTheFile) {
  const testing::TemporaryFolder folder;
  EXPECT_TRUE(refuses<RuntimeFault>([&] { write_durable(folder.path("none/a"), ""); },
                                    {"none/a", "can't be created", "No such file"}));
}

/// Limits the size of this process's files, in bytes: writing beyond it fails as on a full disk.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST(DurableFile, AFullDiskIsAFaultThatLeavesNothing) {
  const testing::TemporaryFolder folder;
  {
    const FileLimit limit(4);
    EXPECT_TRUE(refuses<RuntimeFault>([&] { write_durable(folder.path("a"), "a longer text"); },
                                      {"a' can't be written", "ulimit -f"}));
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
  write_durable(folder.path("a"), "old");
  {
    const FileLimit limit(4);
    EXPECT_THROW(write_durable(folder.path("a"), "a longer text", Named::by_person), RuntimeFault);
  }
  EXPECT_EQ(testing::TemporaryFolder::read(folder.path("a")), "old");
  EXPECT_EQ(entries(folder.path()), 1);
}

TEST(DurableFile, ItsModeIsWhatTheUmaskLeaves) {
  const testing::TemporaryFolder folder;
  const mode_t before = ::umask(027);
  write_durable(folder.path("a"), "text");
  ::umask(before);
  EXPECT_EQ(fs::status(folder.path("a")).permissions(), static_cast<fs::perms>(0640));
}

// Files and links under temporary names, older and newer, are neither followed nor overwritten.
TEST(DurableFile, LinksAndFilesBesideItStayAsTheyAre) {
  const testing::TemporaryFolder folder;
  const std::string victim = folder.write("victim", "precious");
  for (const char* name : {"a.tmp", ".writing_a"}) fs::create_symlink(victim, folder.path(name));
  fs::create_directory(folder.path(".writing_a.1"));
  for (const Named named : {Named::by_weft, Named::by_person}) {
    write_durable(folder.path("a"), "text", named);
    EXPECT_EQ(testing::TemporaryFolder::read(folder.path("a")), "text");
    EXPECT_EQ(testing::TemporaryFolder::read(victim), "precious");
    EXPECT_TRUE(fs::is_symlink(folder.path(".writing_a")));
    EXPECT_EQ(entries(folder.path()), 5);
  }
}

TEST(DurableFile, AFileOfWeftsReplacesALink) {
  const testing::TemporaryFolder folder;
  const std::string victim = folder.write("victim", "precious");
  fs::create_symlink(victim, folder.path("a"));
  write_durable(folder.path("a"), "text");
  EXPECT_EQ(testing::TemporaryFolder::read(victim), "precious");
  EXPECT_FALSE(fs::is_symlink(folder.path("a")));
  EXPECT_EQ(testing::TemporaryFolder::read(folder.path("a")), "text");
}

TEST(DurableFile, APersonsLinkStandsForItsTarget) {
  const testing::TemporaryFolder folder;
  folder.write("there/target", "old");
  fs::create_symlink("there/target", folder.path("link"));
  fs::create_symlink("link", folder.path("chain"));
  fs::create_symlink("there/new", folder.path("dangling"));
  write_durable(folder.path("chain"), "text", Named::by_person);
  write_durable(folder.path("dangling"), "more", Named::by_person);
  for (const char* link : {"link", "chain", "dangling"}) EXPECT_TRUE(fs::is_symlink(folder.path(link))) << link;
  EXPECT_EQ(testing::TemporaryFolder::read(folder.path("there/target")), "text");
  EXPECT_EQ(testing::TemporaryFolder::read(folder.path("there/new")), "more");
  EXPECT_EQ(entries(folder.path("there")), 2);
  fs::create_symlink("loop", folder.path("loop"));
  EXPECT_THROW(expect_writable(folder.path("loop")), UserError);
}

// The test makes its own devices: run as root, it could otherwise replace the system's /dev/null if the code is wrong.
TEST(DurableFile, DevicesStayDevices) {
  const testing::TemporaryFolder folder;
  const std::string null = folder.path("null").string(), full = folder.path("full").string();
  const bool made = ::mknod(null.c_str(), S_IFCHR | 0600, makedev(1, 3)) == 0 &&
                    ::mknod(full.c_str(), S_IFCHR | 0600, makedev(1, 7)) == 0;
  if (!made || ::access(null.c_str(), W_OK) != 0) GTEST_SKIP() << "no devices can be made here";
  expect_writable(null);
  EXPECT_TRUE(written_at_once(null));
  EXPECT_EQ(write_durable(null, "text", Named::by_person).bytes, 4U);
  EXPECT_TRUE(refuses<RuntimeFault>([&] { write_durable(full, "text", Named::by_person); },
                                    {"full' can't be written", "No space left"}));
  for (const std::string& device : {null, full}) EXPECT_TRUE(fs::is_character_file(device)) << device;
  EXPECT_EQ(entries(folder.path()), 2);
}

TEST(DurableFile, APipeGetsTheBytes) {
  const testing::TemporaryFolder folder;
  const std::string pipe = folder.path("pipe").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  expect_writable(pipe);
  write_durable(pipe, "text", Named::by_person);
  char got[8] = {};
  EXPECT_EQ(::read(reader, got, sizeof got), 4);
  EXPECT_STREQ(got, "text");
  ::close(reader);
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_EQ(entries(folder.path()), 1);
}

// bash passes >(…) as a descriptor; here the descriptor is a file, which is continued at its current position.
TEST(DurableFile, AnOpenDescriptorIsWrittenTo) {
  const testing::TemporaryFolder folder;
  const std::string file = folder.path("file").string();
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::write(fd, "one ", 4), 4);
  for (const char* pattern : {"/dev/fd/", "/proc/self/fd/"}) {
    const std::string path = pattern + std::to_string(fd);
    expect_writable(path);
    EXPECT_TRUE(written_at_once(path));
    write_durable(path, "two ", Named::by_person);
  }
  ASSERT_EQ(::write(fd, "three", 5), 5);
  ::close(fd);
  EXPECT_EQ(testing::TemporaryFolder::read(file), "one two two three");
  EXPECT_EQ(entries(folder.path()), 1);
  EXPECT_THROW(expect_writable("/dev/fd/" + std::to_string(fd)), UserError);
}

TEST(DurableFile, WhatAKilledWriterLeftIsRemovedByTheNext) {
  const testing::TemporaryFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    DurableFile file(folder.path("a"));
    file.write(bytes("half"));
    ::_exit(0);  // like SIGKILL: without destructors
  }
  ASSERT_GT(child, 0);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(entries(folder.path()), 1);
  write_durable(folder.path("a"), "text");
  EXPECT_EQ(testing::TemporaryFolder::read(folder.path("a")), "text");
  EXPECT_EQ(entries(folder.path()), 1);
}

TEST(DurableFile, TwoWritersOfOneFileDontShareATemporaryOne) {
  const testing::TemporaryFolder folder;
  DurableFile one(folder.path("a"));
  DurableFile two(folder.path("a"));
  one.write(bytes("from one"));
  two.write(bytes("two"));
  one.commit();
  EXPECT_EQ(testing::TemporaryFolder::read(folder.path("a")), "from one");
  two.commit();
  EXPECT_EQ(testing::TemporaryFolder::read(folder.path("a")), "two");
  EXPECT_EQ(entries(folder.path()), 1);
}

TEST(DurableFile, NamesMayBeAsLongAsTheSystemAllows) {
  const testing::TemporaryFolder folder;
  const std::string name(255, 'n');
  write_durable(folder.path(name), "text");
  EXPECT_EQ(testing::TemporaryFolder::read(folder.path(name)), "text");
}

TEST(DurableFile, ReplacesItsBegin) {
  const testing::TemporaryFolder folder;
  DurableFile file(folder.path("a"));
  const std::string first = "????rest", begin = "head";
  file.write(std::as_bytes(std::span(first)));
  file.replace_begin(std::as_bytes(std::span(begin)));
  const FileSummary summary = file.commit();
  EXPECT_EQ(testing::TemporaryFolder::read(folder.path("a")), "headrest");
  EXPECT_EQ(summary, (FileSummary{8, ""}));
  DurableFile device("/dev/null", Named::by_person);
  EXPECT_THROW(device.replace_begin(std::as_bytes(std::span(begin))), RuntimeFault);
}

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
  EXPECT_TRUE(fs::exists(check_space("relative/folder", {}).where));
}

TEST(CheckSpace, WhatDoesNotFitNamesBothSizes) {
  const testing::TemporaryFolder folder;
  const std::vector<std::uint64_t> sizes = {std::uint64_t{1} << 60};
  const SpaceCheck check = check_space(folder.path(), sizes);
  EXPECT_FALSE(check.fits());
  EXPECT_TRUE(has_parts(check.text(), {"needs " + std::to_string(check.needed) + " bytes", folder.path().string(),
                                       "has " + std::to_string(check.free) + " bytes"}));
}

TEST(DurableFolder, AppearsOnCommit) {
  const testing::TemporaryFolder folder;
  DurableFolder made(folder.path("above/it"));
  write_durable(made.path() / "file", "text");
  EXPECT_FALSE(fs::exists(folder.path("above/it")));
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
  EXPECT_FALSE(fs::exists(folder.path("it/old")));
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
  fs::create_directory_symlink(folder.path("victim"), folder.path(".writing_it"));
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
  EXPECT_EQ(testing::TemporaryFolder::names(place.path("there")), (std::set<std::string>{"a", "b", "other"}));
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
