// Duplicate keys and syntax errors are refused by name.
#include "base/files/json_file.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "tests/base/messages.h"

namespace weft {
namespace {

std::string refusal(std::string_view text) {
  return testing::message_of<UserError>([&] { parse_json(text, "the file"); });
}

TEST(ParseJson, ReadsDocuments) {
  EXPECT_EQ(parse_json(R"({"a": {"b": [1, {"b": 2}]}, "b": 3})", "the file")["a"]["b"][1]["b"], 2);
}

TEST(ParseJson, ReadsWhatWasWritten) {
  for (const char* text : {"null", "true", "-1", "18446744073709551615", "1.5", "\"a\"", "[]", "{}", "[[],{}]",
                           R"({"a":[1,{"b":null}],"c":{"d":[true,false],"e":""}})"}) {
    EXPECT_EQ(parse_json(text, "the file").dump(), text);
  }
}

// Like the header of a file of many tensors. The test would take half an hour if reading a value scanned all earlier
// ones.
TEST(ParseJson, TheWorkForAMemberIsTheSameHoweverManyThereAre) {
  constexpr int kMembers = 400'000;
  std::string text = "{";
  for (int i = 0; i < kMembers; ++i) {
    const std::string number = std::to_string(i);
    text.append(i == 0 ? "\"" : ",\"").append(number);
    text.append(R"(":{"dtype":"F32","shape":[1],"data_offsets":[0,)").append(number).append("]}");
  }
  EXPECT_EQ(parse_json(text + "}", "the file").size(), kMembers);
  EXPECT_TRUE(has_parts(refusal(text + ",\"7\":{}}"), {"the key \"7\" twice"}));
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

TEST(ParseJson, RefusesDeepNesting) {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_EQ(refusal(nested(64)), "");
  EXPECT_TRUE(has_parts(refusal(nested(100)), {"the file nests values more than 64 deep"}));
  EXPECT_TRUE(has_parts(refusal(nested(1'000'000)), {"more than 64 deep"}));
  EXPECT_TRUE(has_parts(refusal(std::string(1'000'000, '[')), {"more than 64 deep"}));
}

TEST(ParseJson, RefusesMoreValuesThanAnyFileNeeds) {
  std::string text = "[0";
  for (int i = 0; i < 4'000'000; ++i) text += ",0";
  EXPECT_TRUE(has_parts(refusal(text + "]"), {"holds more than 4000000 values"}));
}

TEST(ParseJson, RefusesNumbersThatNoDoubleHolds) {
  EXPECT_TRUE(has_parts(refusal("[1e400]"), {"isn't valid JSON", "1e400"}));
  EXPECT_TRUE(has_parts(refusal("[NaN]"), {"isn't valid JSON"}));
}

TEST(JsonText, MembersKeepTheirOrder) {
  const std::string text = R"({"b":{"z":1.0,"a":[]},"a":["x",{"c":null}]})";
  EXPECT_EQ(json_members(text), (std::vector<std::pair<std::string, std::string>>{{"b", R"({"z":1.0,"a":[]})"},
                                                                                  {"a", R"(["x",{"c":null}])"}}));
  EXPECT_EQ(json_lines(text), "{\n\"b\": {\"z\":1.0,\"a\":[]},\n\"a\": [\n\"x\",\n{\"c\":null}\n]\n}\n");
  EXPECT_EQ(indented_json(R"({"b":[1.0],"a":{}})"), "{\n  \"b\": [\n    1.0\n  ],\n  \"a\": {}\n}");
  EXPECT_EQ(indented_json(R"({"b":1,"a":2})", 1, JsonKeys::sorted), "{\n \"a\": 2,\n \"b\": 1\n}");
}

TEST(JsonOutline, TellsWhereJsonEnds) {
  EXPECT_TRUE(outline_of_json(R"({"a":[1,"b"]})").whole);
  const JsonOutline cut = outline_of_json(R"({"a":[1,)");
  EXPECT_FALSE(cut.whole);
  EXPECT_EQ(cut.depth, 2);
  EXPECT_GE(cut.read_size, 8U);
  EXPECT_EQ(outline_of_json("{} {}").depth, 0);
  EXPECT_EQ(outline_of_json("{} {}").read_size, 4U);
}

TEST(ShortestDouble, PrintsLikeTheFloat) {
  EXPECT_EQ(nlohmann::json(shortest_double(1e-5F)).dump(), "1e-05");
  EXPECT_EQ(nlohmann::json(shortest_double(0.02F)).dump(), "0.02");
  EXPECT_EQ(static_cast<float>(shortest_double(0.1F)), 0.1F);
}

}  // namespace
}  // namespace weft
