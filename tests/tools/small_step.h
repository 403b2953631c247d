// The command on a step that takes milliseconds: two layers of width 32 over a text that the folder holds.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/base/temporary_folder.h"
#include "tests/tools/run_command.h"
#include "tools/command_line/config_readers.h"

namespace weft::testing {

class SmallStep : public ::testing::Test {
 protected:
  SmallStep() {
    std::string text;
    for (int i = 0; text.size() < 4000; ++i) text += i % 3 == 0 ? "warp and weft\n" : "a loom of yarn ";
    folder_.write("text.txt", text);
  }

  CommandResult weft(const std::string& command, const std::vector<std::string>& more) const {
    std::vector<std::string> words = {command, "--model",        "custom", "--model.layers", "2", "--model.hidden",
                                      "32",    "--model.ffn",    "96",     "--model.heads",  "4", "--model.context",
                                      "16",    "--global-batch", "4"};
    add_key(words, "threads", "1");
    add_key(words, "data", "text.txt");
    words.insert(words.end(), more.begin(), more.end());
    return run_weft(words, folder_.path().string());
  }

  /// The output with --json of a command that succeeds; nothing but it.
  nlohmann::json figures(const std::string& command, std::vector<std::string> more) const {
    more.emplace_back("--json");
    const CommandResult result = weft(command, more);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_EQ(result.errors, "");
    return nlohmann::json::parse(result.output);
  }

  void expect_refused(const std::string& command, const std::vector<std::string>& more,
                      const std::vector<std::string>& parts) const {
    const CommandResult result = weft(command, more);
    std::string line = command;
    for (const std::string& word : more) line += " " + word;
    EXPECT_EQ(result.exit_code, 2) << line << "\n" << result.errors;
    EXPECT_EQ(result.output, "") << line;
    EXPECT_NE(result.errors.find("fix: "), std::string::npos) << line << "\n" << result.errors;
    for (const std::string& part : parts) {
      EXPECT_NE(result.errors.find(part), std::string::npos) << part << " isn't in\n" << result.errors;
    }
  }

  /// Appends a key's flag for the command words[0] if that reads the key.
  static void add_key(std::vector<std::string>& words, const std::string& key, const std::string& value) {
    if (tools::reads_key(words.front(), key)) words.insert(words.end(), {"--" + key, value});
  }

  static bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

  TemporaryFolder folder_;
};

}  // namespace weft::testing
