// The terminal behind a stream, and its status: as wide as the terminal, never mixed with other output, and absent from
// a pipe.
#include "base/status_line.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "base/log.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "tests/base/pseudo_terminal.h"

namespace weft {
namespace {

using testing::PseudoTerminal;

const std::string kErase = "\r\x1b[K";

/// The status that was drawn last.
std::string last_drawn(const std::string& shown) {
  const std::size_t at = shown.rfind(kErase);
  return at == std::string::npos ? "" : shown.substr(at + kErase.size());
}

TEST(StatusText, HasABarOfTwentyPlacesWithoutAWidth) {
  EXPECT_EQ(status_text({"84/200  loss 2.3456", 84, 200, "ETA 0:32"}),
            " 42% [========>           ] 84/200  loss 2.3456  ETA 0:32");
  EXPECT_EQ(status_text({"done", 3, 3}), "100% [====================] done");
  EXPECT_EQ(status_text({"planning"}), "planning");
}

TEST(StatusText, FillsAndKeepsItsWidth) {
  const Status status{"84/200  織機 2.3456  é", 84, 200, "ETA 0:32"};
  const std::size_t without_bar = text_width(" 42% 84/200  織機 2.3456  é  ETA 0:32");
  for (std::size_t columns = 0; columns < 150; ++columns) {
    const std::string text = status_text(status, columns);
    EXPECT_LE(text_width(text), columns);
    const bool has_bar = text.find('[') != std::string::npos;
    EXPECT_TRUE(!has_bar || text_width(text) == columns) << text;
    EXPECT_EQ(has_bar, columns >= without_bar + 11) << columns;
    EXPECT_TRUE(columns < 20 || (text.starts_with(" 42% ") && text.ends_with("  ETA 0:32"))) << text;
  }
}

TEST(StatusText, IsOneLineThatSteersNothing) {
  EXPECT_EQ(status_text({"a\nb\x1b[2J\t"}), "a\\nb\\x1b[2J\\t");
}

TEST(StatusLine, IsAsWideAsTheTerminalAndFollowsIt) {
  const PseudoTerminal terminal(40);
  StatusLine line(true, terminal.screen());
  ASSERT_TRUE(line.on_terminal());
  const Status status{"10/100  織機 of a long name that has no room", 10, 100, "ETA 1:30"};
  for (const int columns : {40, 120, 40}) {
    terminal.resize(columns);
    line.show(status);
    EXPECT_EQ(text_width(last_drawn(terminal.shown())), static_cast<std::size_t>(columns - 1));
  }
}

TEST(StatusLine, IsTakenAwayAtItsEnd) {
  const PseudoTerminal terminal(80);
  {
    StatusLine line(true, terminal.screen());
    line.tell({"[1/8] planning", 0, 8});
    EXPECT_EQ(last_drawn(terminal.shown()).substr(0, 4), "  0%");
  }
  EXPECT_EQ(terminal.shown(), kErase);
  say(terminal.screen(), "after\n");
  EXPECT_EQ(terminal.shown(), "after\n");
}

TEST(StatusLine, StaysWhereItIsToBeKept) {
  const PseudoTerminal terminal(8);
  {
    StatusLine line(true, terminal.screen());
    line.show({"the last of all"});
    line.keep();
  }
  EXPECT_EQ(terminal.shown(), fmt::format("{0}the la…{0}the last of all\n", kErase));
}

TEST(StatusLine, OtherOutputStandsAboveIt) {
  const PseudoTerminal terminal(80);
  StatusLine line(true, terminal.screen());
  line.show({"working"});
  terminal.shown();
  say(terminal.screen(), "a result\n");
  EXPECT_EQ(terminal.shown(), fmt::format("{0}a result\n{0}working", kErase));
  line.print("a message");
  EXPECT_EQ(terminal.shown(), fmt::format("{0}a message\n{0}working", kErase));
}

/// While this object exists, stderr is that file.
class StderrIs {
 public:
  explicit StderrIs(std::FILE* file) : before_(::dup(STDERR_FILENO)) { ::dup2(::fileno(file), STDERR_FILENO); }
  ~StderrIs() {
    ::dup2(before_, STDERR_FILENO);
    ::close(before_);
  }
  StderrIs(const StderrIs&) = delete;
  StderrIs& operator=(const StderrIs&) = delete;

 private:
  int before_;
};

TEST(StatusLine, AWarningErasesItFirst) {
  const PseudoTerminal terminal(80);
  const StderrIs on_terminal(terminal.screen());
  const testing::EnvironmentVariable term("TERM", "xterm");
  StatusLine line;
  line.show({"working"});
  const auto warned = [&](const char* no_color) {
    const testing::EnvironmentVariable colours("NO_COLOR", no_color);
    Log(LogTopic::run).warning("too warm");
    return terminal.shown();
  };
  EXPECT_EQ(warned("1"), fmt::format("{0}working{0}weft: warning: too warm\n{0}working", kErase));
  EXPECT_EQ(warned(""), fmt::format("{0}weft: \x1b[33mwarning:\x1b[0m too warm\n{0}working", kErase));
}

TEST(StatusLine, TellsTheTimeLeftOfTheWorkThatIsDone) {
  const PseudoTerminal terminal(80);
  StatusLine line(true, terminal.screen());
  line.show({"begin", 0, 10});
  EXPECT_EQ(terminal.shown().find("ETA"), std::string::npos);
  ::usleep(20'000);
  line.show({"half", 5, 10});
  EXPECT_TRUE(terminal.shown().ends_with("half  ETA 0:00"));
  line.show({"other work", 1, 400'000'000});
  EXPECT_EQ(terminal.shown().find("ETA"), std::string::npos);  // no progress was seen yet
  ::usleep(20'000);
  line.show({"other work", 2, 400'000'000});
  const std::string shown = terminal.shown();
  EXPECT_NE(shown.find("ETA "), std::string::npos);
  EXPECT_NE(shown.find("d "), std::string::npos) << shown;  // days
}

TEST(StatusLine, OfAPipeIsLinesAlone) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), &std::fclose);
  {
    StatusLine line(true, file.get()), silent(false, file.get());
    EXPECT_FALSE(line.on_terminal());
    line.show({"unseen", 1, 8});
    line.tell({"[1/8] planning", 1, 8});
    line.print("a message");
    line.keep();
    silent.show({"unseen"});
    silent.tell({"unseen"});
    silent.print("unseen");
  }
  std::rewind(file.get());
  char text[200] = {};
  std::fread(text, 1, sizeof text - 1, file.get());
  EXPECT_STREQ(text, "[1/8] planning\na message\n");
}

TEST(StatusLine, AnotherStreamThanItsTerminalLeavesItAlone) {
  const PseudoTerminal terminal(80);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), &std::fclose);
  StatusLine line(true, terminal.screen());
  line.show({"working"});
  terminal.shown();
  say(file.get(), "a result\n");
  EXPECT_EQ(terminal.shown(), "");
}

TEST(Terminal, HasTheWidthOfNow) {
  const PseudoTerminal terminal(40);
  EXPECT_TRUE(terminal_of(terminal.screen()).is_terminal);
  EXPECT_EQ(terminal_of(terminal.screen()).columns, 40);
  terminal.resize(132);
  EXPECT_EQ(terminal_of(terminal.screen()).columns, 132);
  terminal.resize(0);  // some terminals that don't know their width say so
  EXPECT_EQ(terminal_of(terminal.screen()).columns, 80);
}

TEST(Terminal, IsNoFile) {
  const testing::EnvironmentVariable term("TERM", "xterm"), no_color("NO_COLOR", std::nullopt);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), &std::fclose);
  const Terminal none = terminal_of(file.get());
  EXPECT_FALSE(none.is_terminal);
  EXPECT_FALSE(none.colours);
  EXPECT_EQ(none.columns, 80);
}

TEST(Terminal, IsColouredUnlessItsOwnerForbidsIt) {
  const PseudoTerminal terminal(80);
  const auto coloured = [&](const std::optional<std::string>& term, const std::optional<std::string>& no_color) {
    const testing::EnvironmentVariable a("TERM", term), b("NO_COLOR", no_color);
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
