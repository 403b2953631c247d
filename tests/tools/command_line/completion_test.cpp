// Completion scripts: bash's is called as bash calls it, zsh's is read.
#include "tools/command_line/completion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "runtime/policy/policy.h"
#include "tests/base/temporary_folder.h"
#include "tests/tools/run_command.h"
#include "tools/commands.h"

namespace weft::tools {
namespace {

namespace fs = std::filesystem;

class BashCompletion : public ::testing::Test {
 protected:
  BashCompletion() {
    folder_.write("weft.bash", testing::run_weft({"completion", "bash"}).output);
    folder_.write("run.toml", "steps = 3\n");
    folder_.write("runs/mine/config.toml", "steps = 3\n");
  }

  /// What bash offers for the last of `words`, which follow `weft`.
  std::vector<std::string> offered(const std::vector<std::string>& words) const {
    std::string script = "set -eu\nsource weft.bash\nCOMP_WORDS=(weft";
    for (const std::string& word : words) script += " '" + word + "'";
    script += ")\nCOMP_CWORD=" + std::to_string(words.size()) + "\n_weft\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n";
    const testing::CommandResult result = testing::run({"/bin/bash", "-c", script}, folder_.path().string());
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_EQ(result.errors, "");
    std::istringstream lines(result.output);
    std::vector<std::string> list;
    for (std::string line; std::getline(lines, line);) {
      if (!line.empty()) list.push_back(line);
    }
    std::ranges::sort(list);
    return list;
  }

  testing::TemporaryFolder folder_;
};

using Words = std::vector<std::string>;

bool has(const Words& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

TEST_F(BashCompletion, OffersCommandsAndSubcommands) {
  EXPECT_EQ(offered({"tr"}), (Words{"trace", "train"}));
  EXPECT_EQ(offered({"trace", ""}), (Words{"check", "diff", "export", "summary"}));
  EXPECT_EQ(offered({"help", "doc"}), Words{"doctor"});
  EXPECT_EQ(offered({"completion", ""}), (Words{"bash", "zsh"}));
}

TEST_F(BashCompletion, OffersTheFlagsOfACommand) {
  EXPECT_EQ(offered({"train", "--glo"}), Words{"--global-batch"});
  EXPECT_EQ(offered({"train", "--no-sa"}), Words{"--no-save"});
  EXPECT_EQ(offered({"graph", "--dat"}), Words{});  // it doesn't read --data
  EXPECT_EQ(offered({"trace", "summary", "--all"}), Words{"--all-steps"});
  EXPECT_EQ(offered({"train", "run.toml", "--quiet", "--js"}), Words{"--json"});
}

TEST_F(BashCompletion, OffersValues) {
  EXPECT_EQ(offered({"train", "--device", ""}), (Words{"cpu", "cuda"}));
  EXPECT_EQ(offered({"train", "--device", "=", "cu"}), Words{"cuda"});  // --device=cu, in bash's words
  EXPECT_EQ(offered({"train", "--device", "="}), (Words{"cpu", "cuda"}));
  EXPECT_EQ(offered({"train", "--model", "gpt2-1"}), (Words{"gpt2-124m", "gpt2-1558m"}));
  EXPECT_EQ(offered({"graph", "--kind", "e"}), Words{"eval"});
  EXPECT_EQ(offered({"trace", "export", "--format", "k"}), Words{"kineto"});
  EXPECT_EQ(offered({"export", "--format", ""}), (Words{"chakra", "hf"}));
  for (const std::string& policy : policy::policy_names()) {
    EXPECT_TRUE(has(offered({"compare", "--policies", "serial", ""}), policy)) << policy;
    EXPECT_TRUE(has(offered({"train", "--policy", ""}), policy)) << policy;
  }
  for (const auto& machine : fs::directory_iterator(fs::path(WEFT_SOURCE_DIR) / "machines")) {
    EXPECT_TRUE(has(offered({"simulate", "--machine", ""}), machine.path().stem().string())) << machine.path();
  }
}

TEST_F(BashCompletion, OffersFilesForPaths) {
  EXPECT_EQ(offered({"train", "run"}), (Words{"run.toml", "runs"}));
  EXPECT_EQ(offered({"train", "--run-dir", "ru"}), Words{"runs"});
  EXPECT_EQ(offered({"train", "--json", "run.t"}), Words{"run.toml"});
  EXPECT_EQ(offered({"train", "--data", "run.t"}), Words{"run.toml"});
  EXPECT_EQ(offered({"train", "--steps", ""}), Words{});  // any number
}

TEST(ZshCompletion, HasEveryCommandAndFlag) {
  const Command root = describe_weft("weft");
  const std::string script = zsh_completion(root);
  EXPECT_TRUE(script.starts_with("#compdef weft\n"));
  for (const Command& command : root.subcommands) {
    EXPECT_NE(script.find("\"weft " + command.name + "\") described=("), std::string::npos) << command.name;
    for (const CommandOption& option : command.options) {
      for (const std::string& flag : option.flags()) {
        EXPECT_NE(script.find("'" + flag + ":"), std::string::npos) << command.name << " " << flag;
      }
    }
  }
  EXPECT_EQ(testing::run_weft({"completion", "zsh"}).output, script);
  if (!fs::exists("/bin/zsh") && !fs::exists("/usr/bin/zsh")) GTEST_SKIP() << "no zsh that reads the script";
  const testing::TemporaryFolder folder;
  folder.write("_weft", script);
  const testing::CommandResult read = testing::run({"/usr/bin/env", "zsh", "-n", "_weft"}, folder.path().string());
  EXPECT_EQ(read.exit_code, 0) << read.errors;
}

TEST(Completion, RefusesOtherShells) {
  const testing::CommandResult result = testing::run_weft({"completion", "fish"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.errors.find("one of bash, zsh"), std::string::npos) << result.errors;
}

}  // namespace
}  // namespace weft::tools
