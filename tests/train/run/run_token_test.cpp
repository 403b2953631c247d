// The secret of a run's processes: made once for a user, read whole, and refused where others could read it.
#include "train/run/run_token.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"

namespace weft::train {
namespace {

using std::filesystem::perms;
using weft::testing::refuses;

class RunToken : public ::testing::Test {
 protected:
  std::string write(const std::string& text, perms allowed = perms::owner_read | perms::owner_write) const {
    const std::string path = folder_.write("token", text);
    std::filesystem::permissions(path, allowed);
    return path;
  }
  const testing::TemporaryFolder folder_;
};

TEST_F(RunToken, IsTheFilesTextWithoutItsEnd) {
  const std::string path = write("a secret of many letters \n\n");
  EXPECT_EQ(read_token(path, ""), "a secret of many letters");
  EXPECT_EQ(read_token(path, folder_.path("own").string()), "a secret of many letters");
  EXPECT_FALSE(std::filesystem::exists(folder_.path("own")));
  EXPECT_EQ(read_token("", path), "a secret of many letters");
}

// Many processes start at once.
TEST_F(RunToken, IsMadeOnce) {
  const std::string own = folder_.path("own").string();
  std::vector<std::string> found(8);
  {
    std::vector<std::jthread> threads;
    for (std::string& each : found) threads.emplace_back([&] { each = read_token("", own); });
  }
  EXPECT_EQ(std::set<std::string>(found.begin(), found.end()).size(), 1U);
  EXPECT_EQ(found.front().size(), 64U);
  EXPECT_EQ(std::filesystem::status(own).permissions(), perms::owner_read | perms::owner_write);
  EXPECT_EQ(testing::TemporaryFolder::names(folder_.path()), std::set<std::string>{"own"});
}

TEST_F(RunToken, IsRefusedByName) {
  EXPECT_TRUE(refuses([&] { read_token("", ""); }, {"no home folder", "--token-file"}));
  EXPECT_TRUE(refuses([&] { read_token(folder_.path("missing").string(), ""); }, {"missing", "chmod 600"}));
  EXPECT_TRUE(refuses([&] { read_token("", folder_.path("no/folder").string()); }, {"can't be made", "--token-file"}));
  EXPECT_TRUE(refuses([&] { read_token(write("short"), ""); }, {"has 5 characters", "at least 16"}));
  EXPECT_TRUE(refuses([&] { read_token(write("a secret of many letters", perms::owner_all | perms::others_read), ""); },
                      {"other users may read", "chmod 600 "}));
}

}  // namespace
}  // namespace weft::train
