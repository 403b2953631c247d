#include "base/printable.h"

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "tests/base/pseudo_terminal.h"

namespace weft {
namespace {

TEST(Printable, WhatPeopleReadStays) {
  for (const char* text :
       {"", "loss 2.5", "two\nlines\tand a tab\n", "\xc3\xa9 \xe2\x82\xac \xe2\x80\xa6 \xf0\x9f\x99\x82", "a\\x1b"}) {
    EXPECT_EQ(printable(text), text);
  }
}

TEST(Printable, WhatSteersATerminalIsWrittenOut) {
  EXPECT_EQ(printable("\x1b]0;mine\x07"), "\\x1b]0;mine\\x07");
  EXPECT_EQ(printable("a\rb\bc\v\f"), "a\\x0db\\x08c\\x0b\\x0c");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(printable("\x7f\xc2\x80\xc2\x9b\xc2\x9f\xc2\xa0"), "\\u007f\\u0080\\u009b\\u009f\xc2\xa0");
  EXPECT_EQ(printable("\x9bm\xff\xc0\x80"), "\\x9bm\\xff\\xc0\\x80");  // C1 as eight bits, no UTF-8
  EXPECT_EQ(printable("\xe2\x80\xae\xe2\x81\xa6\xe2\x80\x8f\xd8\x9c"), "\\u202e\\u2066\\u200f\\u061c");
  EXPECT_EQ(printable("\xe2\x82"), "\\xe2\\x82");
}

TEST(Printable, DoneTwiceItIsDoneOnce) {
  const std::string once = printable("\x1b[2J\xc2\x9b\x7f\xff");
  EXPECT_EQ(printable(once), once);
}

TEST(Printable, AJsonDocumentMeansTheSame) {
  const nlohmann::json document = {{"a\x7f", "\x1b\xc2\x9b\xe2\x80\xae\n\xc3\xa9"}};
  EXPECT_NE(printable(document.dump()), document.dump());
  EXPECT_EQ(nlohmann::json::parse(printable(document.dump())), document);
}

TEST(Printable, PiecesMayCutCharacters) {
  const std::string text = "a\xc3\xa9\x1b\xe2\x82\xac\xff\xf0\x9f\x99\x82\xe2\x80\xae\xe2z\xc2";
  PrintableStream stream;
  std::string shown;
  for (const char byte : text) shown += stream.add({&byte, 1});
  shown += stream.finish();
  EXPECT_EQ(shown, printable(text));
  EXPECT_EQ(stream.finish(), "");
  EXPECT_EQ(stream.add("\xc3"), "");  // until the next byte decides
  EXPECT_EQ(stream.add("\xa9"), "\xc3\xa9");
}

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
  std::set<std::string> seen;
  for (const Emphasis emphasis :
       {Emphasis::none, Emphasis::heading, Emphasis::good, Emphasis::bad, Emphasis::error, Emphasis::warning}) {
    EXPECT_TRUE(seen.insert(StyledText().add("x", emphasis).coloured()).second) << static_cast<int>(emphasis);
  }
  EXPECT_TRUE(seen.contains("x"));
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
