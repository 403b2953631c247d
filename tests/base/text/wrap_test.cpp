#include "base/text/wrap.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

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
