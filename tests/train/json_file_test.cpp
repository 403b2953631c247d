// Duplicate keys and syntax errors are refused by name.
#include "train/json_file.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "tests/train/temporary_folder.h"

namespace weft {
namespace {

std::string refusal(std::string_view text) {
  return message_of<UserError>([&] { parse_json(text, "the file"); });
}

TEST(ParseJson, ReadsDocuments) {
  EXPECT_EQ(parse_json(R"({"a": {"b": [1, {"b": 2}]}, "b": 3})", "the file")["a"]["b"][1]["b"], 2);
}

TEST(ParseJson, RefusesAKeyTwiceInOneObject) {
  EXPECT_TRUE(has_parts(refusal(R"({"a": 1, "b": 2, "a": 3})"), {"the file has the key \"a\" twice"}));
  EXPECT_TRUE(has_parts(refusal(R"({"x": [{"a": {}}, {"b": {}, "b": 0}]})"), {"\"b\" twice"}));
  EXPECT_TRUE(has_parts(refusal("{\"a\": 1, \"\\u0061\": 2}"), {"\"a\" twice"}));  // equal after unescaping
}

TEST(ParseJson, RefusesBrokenSyntax) {
  for (const char* text : {"", "{", "{\"a\":}", "{} x", "\"\xff\""}) {
    EXPECT_TRUE(has_parts(refusal(text), {"the file isn't valid JSON"})) << text;
  }
}

TEST(ParseJson, TakesDeepNestingWithoutRunningOutOfStack) {
  EXPECT_NE(refusal(std::string(1'000'000, '[')), "");
}

TEST(ShortestDouble, PrintsLikeTheFloat) {
  EXPECT_EQ(nlohmann::json(shortest_double(1e-5F)).dump(), "1e-05");
  EXPECT_EQ(nlohmann::json(shortest_double(0.02F)).dump(), "0.02");
  EXPECT_EQ(static_cast<float>(shortest_double(0.1F)), 0.1F);
}

}  // namespace
}  // namespace weft
