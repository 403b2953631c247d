// The terminal behind a stream: found, measured at each call, and coloured only where its owner wants colours.
#include "base/terminal.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "tests/base/environment_variable.h"
#include "tests/base/pseudo_terminal.h"

namespace weft {
namespace {

using testing::EnvironmentVariable;

TEST(Terminal, HasTheWidthOfNow) {
  const testing::PseudoTerminal terminal(40);
  EXPECT_TRUE(terminal_of(terminal.screen()).is_terminal);
  EXPECT_EQ(terminal_of(terminal.screen()).columns, 40);
  terminal.resize(132);
  EXPECT_EQ(terminal_of(terminal.screen()).columns, 132);
  terminal.resize(0);  // some terminals that don't know their width say so
  EXPECT_EQ(terminal_of(terminal.screen()).columns, 80);
}

TEST(Terminal, IsNoFile) {
  const EnvironmentVariable term("TERM", "xterm"), no_color("NO_COLOR", std::nullopt);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), &std::fclose);
  const Terminal none = terminal_of(file.get());
  EXPECT_FALSE(none.is_terminal);
  EXPECT_FALSE(none.colours);
  EXPECT_EQ(none.columns, 80);
}

TEST(Terminal, IsColouredUnlessItsOwnerForbidsIt) {
  const testing::PseudoTerminal terminal(80);
  const auto coloured = [&](const std::optional<std::string>& term, const std::optional<std::string>& no_color) {
    const EnvironmentVariable a("TERM", term), b("NO_COLOR", no_color);
    return terminal_of(terminal.screen()).colours;
  };
  EXPECT_TRUE(coloured("xterm-256color", std::nullopt));
  EXPECT_TRUE(coloured("xterm-256color", ""));
  EXPECT_TRUE(coloured(std::nullopt, std::nullopt));
  EXPECT_FALSE(coloured("xterm-256color", "1"));
  EXPECT_FALSE(coloured("xterm-256color", "0"));
  EXPECT_FALSE(coloured("dumb", std::nullopt));
}

}  // namespace
}  // namespace weft
