// -o may name a link, a device, a pipe or an open descriptor beside a new file. As root, too, a device stays a device.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/tools/small_step.h"

namespace weft::tools {
namespace {

namespace fs = std::filesystem;

/// Commands that write one file, by the words before -o.
const std::vector<std::vector<std::string>> kWriters = {
    {"plan"}, {"graph", "--format", "dot"}, {"simulate"}, {"compare", "--policies", "serial"}};

class OutputFiles : public testing::SmallStep {
 protected:
  testing::CommandResult write(const std::vector<std::string>& writer, const std::string& output) const {
    std::vector<std::string> more(writer.begin() + 1, writer.end());
    more.insert(more.end(), {"-o", output});
    return weft(writer.front(), more);
  }
};

TEST_F(OutputFiles, ADeviceStaysADevice) {
  const std::string device = folder_.path("device").string();
  if (::mknod(device.c_str(), S_IFCHR | 0600, makedev(1, 3)) != 0 || ::access(device.c_str(), W_OK) != 0) {
    GTEST_SKIP() << "no devices can be made here";
  }
  for (const auto& writer : kWriters) {
    const testing::CommandResult result = write(writer, "device");
    EXPECT_EQ(result.exit_code, 0) << writer.front() << "\n" << result.errors;
    EXPECT_TRUE(fs::is_character_file(device)) << writer.front();
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), {}), 2);
}

// A link like /dev/stdout: replacing it would take it from the whole system.
TEST_F(OutputFiles, StandardOutputGetsTheFile) {
  fs::create_symlink("/proc/self/fd/1", folder_.path("stdout"));
  const testing::CommandResult result = testing::succeeded(write({"plan"}, "stdout"));
  EXPECT_TRUE(fs::is_symlink(folder_.path("stdout")));
  const std::size_t end = result.output.find("\n}\n");
  ASSERT_NE(end, std::string::npos) << result.output;
  // The command's text about the file comes after it.
  EXPECT_EQ(nlohmann::json::parse(result.output.substr(0, end + 3)).at("format"), "weft-plan");
  EXPECT_TRUE(has(result.output.substr(end), "stdout: "));
}

TEST_F(OutputFiles, ALinkStandsForItsTarget) {
  const std::string target = folder_.write("target.dot", "old");
  fs::create_symlink(target, folder_.path("link"));
  for (const auto& writer : kWriters) {
    if (writer.front() == "compare") continue;  // there a name without an ending is a folder
    folder_.write("target.dot", "old");
    EXPECT_EQ(write(writer, "link").exit_code, 0) << writer.front();
    EXPECT_TRUE(fs::is_symlink(folder_.path("link"))) << writer.front();
    EXPECT_NE(testing::TemporaryFolder::read(target), "old") << writer.front();
  }
}

TEST_F(OutputFiles, ALinkedFolderOfComparisonsIsTheFolder) {
  ASSERT_EQ(write({"compare", "--policies", "serial"}, "there").exit_code, 0);
  fs::create_directory_symlink("there", folder_.path("link"));
  ASSERT_EQ(write({"compare", "--policies", "program"}, "link").exit_code, 0);
  EXPECT_TRUE(fs::is_symlink(folder_.path("link")));
  EXPECT_TRUE(has(read("there/comparison.json"), "\"program\""));
}

}  // namespace
}  // namespace weft::tools
