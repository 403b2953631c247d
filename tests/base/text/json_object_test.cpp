// What is written parses to the same values, whatever the texts hold.
#include "base/text/json_object.h"

#include <gtest/gtest.h>

#include <cmath>
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

TEST(JsonObject, AnyTextIsAString) {
  for (const std::string& text : {std::string("a\"b\\c\n\t\x1b\x7f"), std::string("織機 é"), std::string("a\0b", 3)}) {
    EXPECT_EQ(json::parse(json_string(text)), text);
  }
  EXPECT_EQ(json::parse(json_string("a\xff\xc3")), "a\xef\xbf\xbd\xef\xbf\xbd");
}

}  // namespace
}  // namespace weft
