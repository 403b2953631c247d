// A folder of a test's own in which it runs the built `weft`, and the expectations that tests of commands share.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/tools/run_command.h"

namespace weft::testing {

class WeftFolder : public ::testing::Test {
 protected:
  using Words = std::vector<std::string>;

  CommandResult run(const Words& words) const { return run_weft(words, folder_.path().string()); }
  /// The text of a command that succeeds.
  std::string output(const Words& words) const { return succeeded(run(words)).output; }
  /// The output with --json of a command that succeeds; nothing but it.
  nlohmann::json object_of(const Words& words) const {
    return nlohmann::json::parse(output(joined(words, {"--json"})));
  }
  /// Refused as input, with the fix and all of `parts`; nothing is printed.
  void expect_refusal(const Words& words, const Words& parts) const {
    const CommandResult result = run(words);
    SCOPED_TRACE(::testing::PrintToString(words));
    EXPECT_EQ(result.exit_code, 2) << result.errors;
    EXPECT_EQ(result.output, "");
    EXPECT_TRUE(has_parts(result.errors, {"weft: error: ", "fix: "}));
    EXPECT_TRUE(has_parts(result.errors, parts));
  }

  /// A text of a few thousand tokens to train on.
  void write_text() const {
    std::string text;
    for (int i = 0; text.size() < 4000; ++i) text += i % 3 == 0 ? "warp and weft\n" : "a loom of yarn ";
    folder_.write("text.txt", text);
  }
  std::string read(const std::string& name) const { return TemporaryFolder::read(folder_.path(name)); }
  nlohmann::json read_json(const std::string& name) const { return nlohmann::json::parse(read(name)); }
  bool exists(const std::string& name) const { return std::filesystem::exists(folder_.path(name)); }
  /// The data of a report's page, where they are small.
  static nlohmann::json data_of(const std::string& html) {
    const std::string mark = "data-form=\"plain\">";
    const std::size_t at = html.find(mark) + mark.size();
    return nlohmann::json::parse(html.substr(at, html.find("</script>", at) - at));
  }
  /// The number that stands after these words; below 0: none does.
  static double number_after(const std::string& text, const std::string& words) {
    const std::size_t at = text.find(words);
    return at == std::string::npos ? -1 : std::strtod(text.c_str() + at + words.size(), nullptr);
  }
  static bool has(const std::string& text, const std::string& part) { return contains(text, part); }

  const TemporaryFolder folder_;
};

}  // namespace weft::testing
