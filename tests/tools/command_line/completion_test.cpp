// Completion scripts: bash's is called as bash calls it; zsh's completes lines of a zsh on a terminal.
#include "tools/command_line/completion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "runtime/policy/catalog/policies.h"
#include "tests/base/temporary_folder.h"
#include "tests/tools/run_command.h"
#include "tools/command_line/commands.h"

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

  /// The offers of bash for the last of `words`, which follow `weft`.
  std::vector<std::string> offered(const std::vector<std::string>& words) const {
    std::string script = "set -eu\nsource weft.bash\nCOMP_WORDS=(weft";
    for (const std::string& word : words) script += " '" + word + "'";
    script += ")\nCOMP_CWORD=" + std::to_string(words.size()) + "\n_weft\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n";
    const testing::CommandResult result =
        testing::succeeded(testing::run({"/bin/bash", "-c", script}, folder_.path().string()));
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
  EXPECT_EQ(offered({"trace", ""}), (Words{"check", "diff", "export", "import", "summary"}));
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
  EXPECT_EQ(offered({"export", "--format", ""}), (Words{"chakra", "gguf", "hf"}));
  for (const std::string& policy : policy::policy_names()) {
    EXPECT_TRUE(has(offered({"compare", "--policies", "serial", ""}), policy)) << policy;
    EXPECT_TRUE(has(offered({"train", "--policy", ""}), policy)) << policy;
  }
  for (const auto& machine : fs::directory_iterator(fs::path(WEFT_SOURCE_DIR) / "machines")) {
    if (!machine.is_regular_file()) continue;
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
}

/// The line after Tab, and the words that were offered.
struct Completed {
  std::string line;
  Words offered;
};

class ZshTab : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists("/bin/zsh") && !fs::exists("/usr/bin/zsh")) GTEST_SKIP() << "no zsh here: apt-get install zsh";
    folder_.write("_weft", testing::run_weft({"completion", "zsh"}).output);
    folder_.write("run.toml", "steps = 3\n");
    folder_.write("runs/mine/config.toml", "steps = 3\n");
  }

  Completed completed(const std::string& beginning) const {
    const testing::CommandResult result = testing::succeeded(
        testing::run({"/usr/bin/env", "zsh", WEFT_SOURCE_DIR "/tests/tools/command_line/zsh_offers.zsh", beginning},
                     folder_.path().string()));
    EXPECT_EQ(result.errors, "");
    std::istringstream lines(result.output);
    Completed found;
    std::getline(lines, found.line);
    for (std::string word; std::getline(lines, word);) {
      if (!word.empty()) found.offered.push_back(word);
    }
    std::ranges::sort(found.offered);
    return found;
  }

  testing::TemporaryFolder folder_;
};

TEST_F(ZshTab, CompletesCommandsAndTheirFlags) {
  EXPECT_EQ(completed("weft tr").offered, (Words{"trace", "train"}));
  EXPECT_EQ(completed("weft trace ").offered, (Words{"check", "diff", "export", "import", "summary"}));
  EXPECT_EQ(completed("weft help doc").line, "weft help doctor ");
  EXPECT_EQ(completed("build/weft train run.toml --glo").line, "build/weft train run.toml --global-batch ");
  EXPECT_EQ(completed("weft train --no-sa").line, "weft train --no-save ");
  EXPECT_EQ(completed("weft graph --dat").line, "weft graph --dat");  // it doesn't read --data
}

TEST_F(ZshTab, CompletesValuesAndPaths) {
  EXPECT_EQ(completed("weft train --device ").offered, (Words{"cpu", "cuda"}));
  EXPECT_EQ(completed("weft train --device=cu").line, "weft train --device=cuda ");
  EXPECT_EQ(completed("weft train --model gpt2-1").offered, (Words{"gpt2-124m", "gpt2-1558m"}));
  EXPECT_TRUE(has(completed("weft compare --policies serial ").offered, "lhs"));
  EXPECT_EQ(completed("weft train run").offered, (Words{"run.toml", "runs"}));
  EXPECT_EQ(completed("weft train --run-dir ru").line, "weft train --run-dir runs/");
  EXPECT_EQ(completed("weft train --data=run.t").line, "weft train --data=run.toml ");
  EXPECT_EQ(completed("weft train --steps ").offered, Words{});  // any number
}

TEST(Completion, RefusesOtherShells) {
  const testing::CommandResult result = testing::run_weft({"completion", "fish"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.errors.find("one of bash, zsh"), std::string::npos) << result.errors;
}

}  // namespace
}  // namespace weft::tools
