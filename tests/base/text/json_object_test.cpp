// Written JSON parses to the same values, whatever the texts hold.
#include "base/text/json_object.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

namespace weft {
namespace {

using nlohmann::json;

TEST(JsonObject, KeepsValuesAndTheirOrder) {
  const std::vector<std::string> texts = {"a", "b\"c"};
  const std::vector<JsonObject> objects = {JsonObject().add("n", 1), JsonObject()};
  const JsonObject object = JsonObject()
                                .add("z", "text")
                                .add("flag", true)
                                .add("most", UINT64_MAX)
                                .add("least", INT64_MIN)
                                .add("share", 0.1)
                                .add("large", 1e300)
                                .add("none", std::nan(""))
                                .add("texts", texts)
                                .add("objects", objects)
                                .add("inner", JsonObject().add("x", -1));
  EXPECT_TRUE(object.text().starts_with("{\"z\":\"text\",\"flag\":true,"));
  EXPECT_EQ(json::parse(object.text()), (json{{"z", "text"},
                                              {"flag", true},
                                              {"most", UINT64_MAX},
                                              {"least", INT64_MIN},
                                              {"share", 0.1},
                                              {"large", 1e300},
                                              {"none", nullptr},
                                              {"texts", {"a", "b\"c"}},
                                              {"objects", json::array({{{"n", 1}}, json::object()})},
                                              {"inner", {{"x", -1}}}}));
  EXPECT_EQ(JsonObject().text(), "{}");
}

TEST(JsonObject, ListsAndMapsAreValues) {
  const std::map<std::string, std::vector<int>> map = {{"b", {1, 2}}, {"a", {}}};
  EXPECT_EQ(JsonObject().add("map", map).text(), R"({"map":{"a":[],"b":[1,2]}})");
  EXPECT_EQ(JsonArray().text(), "[]");
  EXPECT_EQ((JsonArray{1, "a", nullptr, 0.5, JsonArray{true}, JsonObject().add("x", JsonArray())}).text(),
            R"([1,"a",null,0.5,[true],{"x":[]}])");
  EXPECT_EQ(JsonObject().add("as it is", JsonValue::written("[1]")).text(), R"({"as it is":[1]})");
}

TEST(JsonObject, WritesWhatTheLibraryWrites) {
  for (const double number : {0.0, -0.0, 1.0, -3.0, 1e-5, 1e15, 1e16, 0.1, 1 / 3.0, 5e-324, 1.7976931348623157e308}) {
    EXPECT_EQ(JsonValue(number).text(), json(number).dump());
  }
  for (const char* text :
       {"", "a b~", "\t\r\n\b\f\x1f\x7f", "é", "\xe2\x82", "a\xe2\x82z", "\xf0\x9f\x98", "\xed\xa0\x80"}) {
    EXPECT_EQ(json_string(text), json(text).dump(-1, ' ', false, json::error_handler_t::replace));
  }
}

TEST(JsonObject, AnyTextIsAString) {
  for (const std::string& text : {std::string("a\"b\\c\n\t\x1b\x7f"), std::string("織機 é"), std::string("a\0b", 3)}) {
    EXPECT_EQ(json::parse(json_string(text)), text);
  }
  EXPECT_EQ(json::parse(json_string("a\xff\xc3")), "a\xef\xbf\xbd\xef\xbf\xbd");
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
