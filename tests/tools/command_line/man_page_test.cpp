#include <gtest/gtest.h>

#include <filesystem>

#include "tests/base/temporary_folder.h"
#include "tests/tools/run_command.h"
#include "tools/command_line/commands.h"
#include "tools/command_line/help.h"
#include "train/config/config.h"

namespace weft::tools {
namespace {

TEST(ManPage, EscapesWhatRoffWouldRead) {
  Command root{"weft", "a summary"};
  root.description = ".dot \\ back - dash \xE2\x80\xA6 'quoted'";
  const std::string page = man_page(root, "weft 1.2");
  EXPECT_TRUE(page.starts_with(".TH WEFT 1 \"\" \"weft 1.2\" \"User Commands\"\n.ad l\n")) << page;
  EXPECT_NE(page.find("\n\\&.dot \\e back \\- dash \\[u2026] \\(aqquoted\\(aq\n"), std::string::npos) << page;
}

TEST(ManPage, HasEveryKeyOnceAndEveryCommand) {
  const std::string page = testing::run_weft({"man"}).output;
  for (const train::ConfigKey& key : train::config_keys()) {
    std::string flag = "\n.B \\-\\-";
    for (const char c : key.name) flag += c == '-' ? std::string("\\-") : std::string(1, c);
    EXPECT_NE(page.find(flag), std::string::npos) << key.name;
  }
  const Command root = describe_weft("weft");
  for (const Command& command : root.subcommands) {
    EXPECT_NE(page.find("\n.SS \"weft " + command.name + "\"\n"), std::string::npos) << command.name;
  }
}

TEST(ManPage, GroffReadsItWithoutAWarning) {
  if (!std::filesystem::exists("/usr/bin/groff")) GTEST_SKIP() << "no groff";
  const testing::TemporaryFolder folder;
  folder.write("weft.1", testing::run_weft({"man"}).output);
  const testing::CommandResult result = testing::succeeded(
      testing::run({"/usr/bin/env", "groff", "-man", "-Tutf8", "-ww", "weft.1"}, folder.path().string()));
  EXPECT_EQ(result.errors, "");
  EXPECT_NE(result.output.find("Input to fix"), std::string::npos);
}

}  // namespace
}  // namespace weft::tools
