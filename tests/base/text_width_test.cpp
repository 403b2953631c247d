// Columns of text in several scripts.
#include "base/text_width.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(TextWidth, CountsColumns) {
  EXPECT_EQ(text_width(""), 0U);
  EXPECT_EQ(text_width("loss 2.5"), 8U);
  EXPECT_EQ(text_width("é€…"), 3U);
  EXPECT_EQ(text_width("e\xcc\x81"), 1U);  // a letter and its accent
  EXPECT_EQ(text_width("織機"), 4U);
  EXPECT_EQ(text_width("한글ｗ"), 6U);
  EXPECT_EQ(text_width("🧵 x"), 4U);
  EXPECT_EQ(text_width("\xff\xc3"), 2U);
}

TEST(TextWidth, CutsBetweenCharacters) {
  EXPECT_EQ(cut_to_width("weft", 4), "weft");
  EXPECT_EQ(cut_to_width("weft", 3), "we…");
  EXPECT_EQ(cut_to_width("weft", 1), "…");
  EXPECT_EQ(cut_to_width("weft", 0), "");
  EXPECT_EQ(cut_to_width("織機織", 6), "織機織");
  EXPECT_EQ(cut_to_width("織機織", 5), "織機…");
  EXPECT_EQ(cut_to_width("織機織", 4), "織…");  // half of a wide character isn't shown
  EXPECT_EQ(cut_to_width("e\xcc\x81t\xc3\xa9", 2), "e\xcc\x81…");
}

using Lines = std::vector<std::string>;

TEST(Wrap, BreaksAtSpacesAndKeepsTheWidth) {
  EXPECT_EQ(wrap("one two three", 7), (Lines{"one two", "three"}));
  EXPECT_EQ(wrap("one two three", 8), (Lines{"one two", "three"}));
  EXPECT_EQ(wrap("one two three", 13), Lines{"one two three"});
  EXPECT_EQ(wrap("one  two", 80), Lines{"one two"});
}

TEST(Wrap, ALongWordHasALineOfItsOwn) {
  EXPECT_EQ(wrap("a incomprehensible b", 5), (Lines{"a", "incomprehensible", "b"}));
}

TEST(Wrap, LineBreaksOfTheTextStay) {
  EXPECT_EQ(wrap("a b\nc\n\nd", 80), (Lines{"a b", "c", "", "d"}));
  EXPECT_EQ(wrap("", 80), Lines{});
}

TEST(Wrap, CountsColumnsNotBytes) {
  EXPECT_EQ(wrap("\xC3\xA9\xC3\xA9 \xC3\xA9\xC3\xA9", 5), Lines{"\xC3\xA9\xC3\xA9 \xC3\xA9\xC3\xA9"});
  EXPECT_EQ(wrap("\xE7\xB9\x94\xE7\xB9\x94 \xE7\xB9\x94", 6),
            (Lines{"\xE7\xB9\x94\xE7\xB9\x94", "\xE7\xB9\x94"}));  // two columns each
}

}  // namespace
}  // namespace weft
