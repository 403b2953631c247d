// A file appears whole or not at all.
#include "train/durable_file.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/train/temporary_folder.h"

namespace weft {
namespace {

std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(DurableFile, AppearsOnCommit) {
  const TemporaryFolder folder;
  DurableFile file(folder.path("a"));
  file.write(bytes("one "));
  file.write(bytes("two"));
  EXPECT_FALSE(std::filesystem::exists(folder.path("a")));
  file.commit();
  EXPECT_EQ(TemporaryFolder::read(folder.path("a")), "one two");
}

TEST(DurableFile, WithoutCommitTheOlderFileStaysAndNothingElse) {
  const TemporaryFolder folder;
  write_durable(folder.path("a"), "old");
  {
    DurableFile file(folder.path("a"));
    file.write(bytes("new"));
  }
  EXPECT_EQ(TemporaryFolder::read(folder.path("a")), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(DurableFile, AFaultNamesTheFile) {
  const TemporaryFolder folder;
  EXPECT_TRUE(has_parts(message_of<RuntimeFault>([&] { write_durable(folder.path("none/a"), ""); }),
                        {"none/a", "can't be created", "No such file"}));
}

TEST(DurableFile, AFullDiskIsAFaultThatLeavesNothing) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full on this system";
  const TemporaryFolder folder;
  std::filesystem::create_symlink("/dev/full", folder.path("a.tmp"));
  EXPECT_TRUE(has_parts(message_of<RuntimeFault>([&] { write_durable(folder.path("a"), "text"); }),
                        {"a' can't be written", "No space left"}));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace weft
