#include "tools/command_line/config_readers.h"

#include <gtest/gtest.h>

#include "tests/tools/small_step.h"
#include "tools/command_line/commands.h"
#include "train/config/config.h"

namespace weft::tools {
namespace {

using Names = std::vector<std::string>;

TEST(ConfigReaders, TrainReadsEveryKeyAndEveryKeyIsNamed) {
  for (const train::ConfigKey& key : train::config_keys()) {
    EXPECT_TRUE(is_config_key(key.name));
    EXPECT_EQ(readers_of(key.name).front(), "train") << key.name;
  }
  EXPECT_FALSE(is_config_key("json"));
  EXPECT_EQ(readers_of("json"), Names{});
  EXPECT_EQ(readers_of("data"), (Names{"train", "eval"}));
  EXPECT_EQ(readers_of("lr"), Names{"train"});
}

// The flags of a command are the keys that it reads: a command that reads none, like diff, has none.
TEST(ConfigReaders, FlagsAreTheKeysThatAreRead) {
  const Command root = describe_weft("weft");
  for (const Command& command : root.subcommands) {
    for (const train::ConfigKey& key : train::config_keys()) {
      const CommandOption* option = find_option(command, "--" + key.name);
      const bool of_keys = option != nullptr && !option->group.empty();
      EXPECT_EQ(of_keys, reads_key(command.name, key.name)) << command.name << " --" << key.name;
    }
  }
}

class UnreadKeys : public testing::SmallStep {};

TEST_F(UnreadKeys, AreRefusedOnTheCommandLineAndTakenFromAFile) {
  expect_refused("graph", {"--data", "x"}, {"weft graph doesn't read --data", "only train, eval read it"});
  expect_refused("graph", {"--set", "data=x"}, {"weft graph doesn't read --set data", "only train, eval read it"});
  expect_refused("simulate", {"--lr=1"}, {"weft simulate doesn't read --lr", "only train reads it"});
  expect_refused("eval", {"run", "--steps", "3"}, {"weft eval doesn't read"});
  folder_.write("run.toml", "data = \"nowhere.txt\"\nlr = 0.5\ntrace-every = 3\n");
  testing::succeeded(weft("graph", {"run.toml", "-o", "a.dot"}));
}

}  // namespace
}  // namespace weft::tools
