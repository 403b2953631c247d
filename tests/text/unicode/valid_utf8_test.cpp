#include "text/unicode/valid_utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace weft::text {
namespace {

std::string made_valid(std::string_view text) {
  std::string storage;
  return std::string(valid_utf8(text, storage));
}

TEST(ValidUtf8, KeepsTextAsItIs) {
  std::string storage;
  const std::string_view text = "a \xC3\xA9 \xE4\xB8\xAD \xF0\x9F\x98\x80 and more than eight plain letters";
  EXPECT_EQ(valid_utf8(text, storage).data(), text.data());
  EXPECT_EQ(made_valid(""), "");
}

// The numbers of U+FFFD are those of Python's bytes.decode("utf-8", "replace").
TEST(ValidUtf8, ReplacesTheLongestBeginningOfACharacter) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(made_valid("a\xFF"
                       "b"),
            "a" + r + "b");
  EXPECT_EQ(made_valid("\xE4\xB8"), r);
  EXPECT_EQ(made_valid("\xE4\xB8x"), r + "x");
  EXPECT_EQ(made_valid("\xF0\x9F\x98x"), r + "x");
  EXPECT_EQ(made_valid("\xC3(\x80\x80"), r + "(" + r + r);
  EXPECT_EQ(made_valid("\xED\xA0\x80"), r + r + r);          // half of a surrogate pair
  EXPECT_EQ(made_valid("\xE0\x80\x80"), r + r + r);          // an overlong form
  EXPECT_EQ(made_valid("\xF4\x90\x80\x80"), r + r + r + r);  // beyond U+10FFFF
  EXPECT_EQ(made_valid("\xC0\xAF"), r + r);
  EXPECT_EQ(made_valid("\xF0\x9F\xE4\xB8\xAD"), r + "\xE4\xB8\xAD");
}

}  // namespace
}  // namespace weft::text
