#include "train/config/path_list.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "tests/base/messages.h"

namespace weft::train {
namespace {

PathList list_of(const std::vector<std::string>& paths) {
  PathList list;
  for (const std::string& path : paths) list.add(path);
  return list;
}

TEST(PathList, OnePathIsItsOwnText) {
  for (const char* path : {"a.txt", "a, b", "[abc].txt", "[", "a\nb", "x/*.txt"}) {
    EXPECT_EQ(to_text(path), path);
    EXPECT_EQ(paths_of(path, "--data"), path);
  }
  EXPECT_EQ(to_text(PathList()), "");
  EXPECT_TRUE(paths_of("", "--data").empty());
}

TEST(PathList, SeveralPathsAreAListOfToml) {
  const std::vector<std::vector<std::string>> lists = {
      {"a.txt", "b.txt"}, {"with \"quotes\"", "back\\slash", "new\nline", "é"}, {"[\"a\"]"}, {"[\"a\", \"b\"]", "c"}};
  for (const auto& paths : lists) {
    const std::string text = to_text(list_of(paths));
    EXPECT_TRUE(is_path_list(text));
    EXPECT_EQ(paths_of(text, "--data").paths(), paths);
  }
  EXPECT_EQ(to_text(list_of({"a.txt", "b.txt"})), "[\"a.txt\", \"b.txt\"]");
}

TEST(PathList, RefusesListsWithoutPaths) {
  const auto refused = [](const std::string& text) {
    return testing::message_of<UserError>([&] { paths_of(text, "--data"); });
  };
  EXPECT_TRUE(has_parts(refused("[\"a\", 3]"), {"--data", "paths[1] is 3"}));
  EXPECT_TRUE(has_parts(refused("[\"a\", \"\"]"), {"an empty path"}));
  EXPECT_TRUE(has_parts(refused("[\"a\" \"b\"]"), {"--data", "[\"a.txt\", \"b.txt\"]"}));
  EXPECT_TRUE(has_parts(refused("[\"a\\u0000b\"]"), {"not plain text"}));
  const PathList many = list_of(std::vector<std::string>(4000, "texts/one.txt"));
  EXPECT_TRUE(has_parts(refused(to_text(many)), {"68000 bytes", "at most 32768", "a pattern in quotes"}));
}

TEST(PathList, MessagesNameTheFirst) {
  EXPECT_EQ(shown("a.txt"), "'a.txt'");
  EXPECT_EQ(shown(list_of({"a", "b", "c"})), "'a', 'b', 'c'");
  EXPECT_EQ(shown(list_of({"a", "b", "c", "d", "e"})), "'a', 'b', 'c' and 2 more");
}

}  // namespace
}  // namespace weft::train
