// Emphasis becomes colour on terminals alone, and no text can colour or steer by itself.
#include "base/styled_text.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "tests/base/environment_variable.h"
#include "tests/base/pseudo_terminal.h"

namespace weft {
namespace {

StyledText styled_sample() {
  StyledText text("a ");
  text.add("b", Emphasis::heading).add("\x1b[2J", Emphasis::good).add("", Emphasis::bad).add(StyledText(" c\n"));
  return text;
}

TEST(StyledText, HasAPlainAndAColouredForm) {
  EXPECT_EQ(styled_sample().plain(), "a b\x1b[2J c\n");
  EXPECT_EQ(styled_sample().coloured(), "a \x1b[1mb\x1b[0m\x1b[32m\\x1b[2J\x1b[0m c\n");
  EXPECT_TRUE(StyledText().empty());
  EXPECT_TRUE(StyledText("").empty());
}

TEST(StyledText, EachEmphasisLooksDifferent) {
  std::vector<std::string> seen;
  for (const Emphasis emphasis :
       {Emphasis::none, Emphasis::heading, Emphasis::good, Emphasis::bad, Emphasis::error, Emphasis::warning}) {
    seen.push_back(StyledText().add("x", emphasis).coloured());
    for (std::size_t i = 0; i + 1 < seen.size(); ++i) EXPECT_NE(seen[i], seen.back());
  }
  EXPECT_EQ(seen.front(), "x");
}

TEST(StyledText, IsColouredOnATerminalAlone) {
  const testing::EnvironmentVariable term("TERM", "xterm"), no_color("NO_COLOR", std::nullopt);
  const testing::PseudoTerminal terminal(80);
  say(terminal.screen(), styled_sample());
  EXPECT_EQ(terminal.shown(), styled_sample().coloured());
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), &std::fclose);
  say(file.get(), styled_sample());
  std::rewind(file.get());
  char text[100] = {};
  std::fread(text, 1, sizeof text - 1, file.get());
  EXPECT_STREQ(text, "a b\\x1b[2J c\n");
}

}  // namespace
}  // namespace weft
