#include "text/pipeline/added_tokens.h"

#include <gtest/gtest.h>

#include <string>

namespace weft::text {
namespace {

std::string same(std::string_view text) {
  return std::string(text);
}

/// "a{3}b": text, tokens by id.
std::string cut(const AddedTokens& tokens, std::string_view text, bool special = true, bool normalized = false) {
  std::string out;
  tokens.split(
      text, normalized, special, [&](std::string_view plain) { out += "(" + std::string(plain) + ")"; },
      [&](const AddedToken& token) { out += "{" + std::to_string(token.id) + "}"; });
  return out;
}

TEST(AddedTokens, TheLongestAtEachPlace) {
  const AddedTokens tokens({{.text = "<a>", .id = 1, .special = true}, {.text = "<a>b", .id = 2}}, same);
  EXPECT_EQ(cut(tokens, "x<a>y<a>b"), "(x){1}(y){2}");
  EXPECT_EQ(cut(tokens, "<a"), "(<a)");
  EXPECT_EQ(cut(tokens, "<<a>"), "(<){1}");
  EXPECT_EQ(cut(tokens, ""), "");
  EXPECT_EQ(cut(tokens, "x<a>y<a>b", false), "(x<a>y){2}");  // special tokens' texts are plain
}

TEST(AddedTokens, StripsAndWholeWords) {
  const AddedTokens tokens({{.text = "<l>", .id = 1, .strip_left = true},
                            {.text = "<r>", .id = 2, .strip_right = true},
                            {.text = "foo", .id = 3, .single_word = true}},
                           same);
  EXPECT_EQ(cut(tokens, "a  <l> b"), "(a){1}( b)");
  EXPECT_EQ(cut(tokens, "a <r> \n b"), "(a ){2}(b)");
  EXPECT_EQ(cut(tokens, "<r>  <l>x"), "{2}{1}(x)");
  EXPECT_EQ(cut(tokens, "foo foot afoo foo."), "{3}( foot afoo ){3}(.)");
}

TEST(AddedTokens, NormalizedTokensAreFoundInNormalizedText) {
  const AddedTokens tokens({{.text = "<A>", .id = 1, .normalized = true}}, [](std::string_view) { return "<a>"; });
  EXPECT_EQ(cut(tokens, "<A><a>"), "(<A><a>)");
  EXPECT_EQ(cut(tokens, "<A><a>", true, true), "(<A>){1}");
}

TEST(AddedTokens, AreFoundByIdAndText) {
  const AddedTokens tokens({{.text = "<a>", .id = 7}}, same);
  EXPECT_EQ(tokens.find(7)->text, "<a>");
  EXPECT_EQ(tokens.find("<a>")->id, 7);
  EXPECT_EQ(tokens.find(8), nullptr);
  EXPECT_FALSE(tokens.may_cross_lines());
  EXPECT_TRUE(AddedTokens({{.text = "\n\n", .id = 1}}, same).may_cross_lines());
  EXPECT_TRUE(AddedTokens({{.text = "word", .id = 1, .strip_left = true}}, same).may_cross_lines());
}

}  // namespace
}  // namespace weft::text
