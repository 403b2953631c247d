// Tables keep within a terminal's width by cutting words and leaving out columns, never by cutting a number.
#include "base/text/text_table.h"

#include <gtest/gtest.h>

#include <sstream>

#include "base/utf8.h"
#include "tests/base/messages.h"

namespace weft {
namespace {

TextTable table_sample() {
  TextTable table{.columns = {{.head = "policy", .words = true},
                              {.head = "step ms"},
                              {.head = "exposed ms", .rank = 1, .emphasis = Emphasis::bad},
                              {.head = "gap %", .rank = 2},
                              {.head = "remark", .words = true, .least = 6}}};
  table.rows = {{"serial", "12.50", "3.25", "20.0", "the order of a person"},
                {"織機", "9.75", "0.10", "1.5", "-"},
                {"mine", "no plan: its library asks for another version of the interface"}};
  table.best = 1;
  return table;
}

std::size_t widest(const std::string& text) {
  std::istringstream lines(text);
  std::size_t width = 0;
  for (std::string line; std::getline(lines, line);) width = std::max(width, text_width(line));
  return width;
}

TEST(TextTable, AlignsWordsLeftAndNumbersRight) {
  EXPECT_EQ(table_text(table_sample()).plain(),
            "policy  step ms  exposed ms  gap %  remark\n"
            "serial    12.50        3.25   20.0  the order of a person\n"
            "織機       9.75        0.10    1.5  -\n"
            "mine    no plan: its library asks for another version of the interface\n");
}

TEST(TextTable, CutsWordsThenLeavesOutTheLeastColumns) {
  const std::string cut = table_text(table_sample(), 45).plain();
  EXPECT_TRUE(has_parts(cut, {"serial    12.50        3.25   20.0  the orde…\n",
                              "mine    no plan: its library asks for another\n        version of the interface\n"}));
  const std::string fewer = table_text(table_sample(), 36).plain();
  EXPECT_NE(fewer.find("serial    12.50        3.25  the or…\n"), std::string::npos) << fewer;
  EXPECT_TRUE(fewer.ends_with("(not shown in this width: gap %)\n")) << fewer;
}

TEST(TextTable, KeepsItsWidthAndEveryNumber) {
  for (std::size_t width = 28; width < 120; ++width) {
    const std::string text = table_text(table_sample(), width).plain();
    EXPECT_LE(widest(text), width) << text;
    EXPECT_TRUE(has_parts(text, {"12.50", "9.75"}));
    EXPECT_EQ(text.find("not shown") == std::string::npos, text.find("20.0") != std::string::npos) << text;
  }
  EXPECT_EQ(table_text(table_sample(), 500).plain(), table_text(table_sample()).plain());
  // A table that can't be made narrower stays too wide.
  EXPECT_NE(table_text(table_sample(), 5).plain().find("12.50"), std::string::npos);
}

TEST(TextTable, ARowOfWordsOutlivesItsColumn) {
  TextTable table{
      .columns = {{.head = "grid", .words = true}, {.head = "bytes", .rank = 1}, {.head = "sent", .rank = 1}}};
  table.rows = {{"x=2", "1234567890123", "12"}, {"x=3", "doesn't divide"}};
  const std::string text = table_text(table, 22).plain();
  EXPECT_NE(text.find("x=3   doesn't divide\n"), std::string::npos) << text;
  const std::string narrow = table_text(table, 8).plain();
  EXPECT_NE(narrow.find("doesn't divide\n"), std::string::npos) << narrow;
  EXPECT_EQ(narrow.find("1234567890123"), std::string::npos) << narrow;
}

TEST(TextTable, ColoursHeadingsTheBestRowAndColumns) {
  const std::string text = table_text(table_sample()).coloured();
  EXPECT_TRUE(text.starts_with("\x1b[1mpolicy\x1b[0m")) << text;
  EXPECT_TRUE(has_parts(text, {"\x1b[31m      3.25\x1b[0m", "\x1b[32m      0.10\x1b[0m"}));
}

TEST(TextTable, NamesCantMakeLinesOrSteer) {
  const TextTable table{.columns = {{.head = "task", .words = true}}, .rows = {{"a\nb\x1b[2J"}}};
  EXPECT_EQ(table_text(table).plain(), "task\na\\nb\\x1b[2J\n");
}

TEST(TextTable, IsMarkdownToo) {
  TextTable table = table_sample();
  table.rows.push_back({"a|b", "1.00", "2.00", "3.0", "x"});
  const std::string text = table_markdown(table);
  EXPECT_TRUE(
      has_parts(text, {"| policy | step ms | exposed ms | gap % | remark ", "\n|---|--:|--:|--:|---|\n", "| a\\|b "}));
  // Each line has the same columns.
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::size_t bars = 0;
    for (std::size_t i = 0; i < line.size(); ++i) bars += line[i] == '|' && (i == 0 || line[i - 1] != '\\') ? 1 : 0;
    EXPECT_EQ(bars, 6U) << line;
  }
}

}  // namespace
}  // namespace weft
