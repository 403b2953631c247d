#include "base/printable.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

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
  EXPECT_EQ(printable("\x9b"
                      "31m\xff\xc0\x80"),
            "\\x9b"
            "31m\\xff\\xc0\\x80");  // C1 as eight bits, no UTF-8
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

}  // namespace
}  // namespace weft
