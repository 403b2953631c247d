// Values by name, type and range; a refusal names the value's position.
#include "base/files/document.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "tests/base/messages.h"

namespace weft {
namespace {

enum class Colour : std::uint8_t { red, green };
std::string_view to_string(Colour colour) {
  return colour == Colour::red ? "red" : "green";
}

void nothing(const DocumentValue& /*root*/) {}

template <class Read = decltype(&nothing)>
std::string refusal(std::string_view text, Read read = nothing) {
  return testing::message_of<UserError>([&] {
    const Document document = read_json(text, "f.json", {.fix = "mend it"});
    read(document.root());
  });
}

TEST(Document, GivesWhatIsAskedFor) {
  const Document document = read_json(
      R"({"text": "a", "flag": true, "least": -5, "most": 18446744073709551615, "real": 0.5, "whole": 2,
          "list": [1, [2]], "colour": "green", "nothing": null})",
      "f.json");
  const DocumentValue in = document.root();
  EXPECT_EQ(in["text"].text(), "a");
  EXPECT_TRUE(in["flag"].boolean());
  EXPECT_EQ(in["least"].integer(-5, -5), -5);
  EXPECT_EQ(in["most"].count(), UINT64_MAX);
  EXPECT_EQ(in["real"].number(), 0.5);
  EXPECT_EQ(in["real"].float_number(), 0.5F);
  EXPECT_EQ(in["whole"].number({.least = 2, .most = 2}), 2.0);
  EXPECT_EQ(in["list"].items().at(1).items(1, "one")[0].integer(0, 9), 2);
  EXPECT_EQ(in["colour"].one_of({Colour::red, Colour::green}), Colour::green);
  EXPECT_TRUE(in["nothing"].is_null());
  EXPECT_TRUE(in["text"].is_text() && in["flag"].is_boolean() && in["list"].is_list() && in.is_object());
  EXPECT_TRUE(in["whole"].is_integer() && in["whole"].is_number() && in["real"].is_number());
  EXPECT_FALSE(in["real"].is_integer() || in["text"].is_number());
  EXPECT_FALSE(in.find("other").has_value());
  EXPECT_EQ(in.members().size(), 9U);
}

TEST(Document, RefusesByPlaceValueExpectationAndFix) {
  EXPECT_EQ(refusal(R"({"a": [{"b": 7}]})", [](auto in) { in["a"].items()[0]["b"].text(); }),
            "f.json: a[0].b is 7; expected a text\n  fix: mend it");
  EXPECT_EQ(refusal(R"({"h.0": {"b": 7}})", [](auto in) { in["h.0"]["b"].boolean(); }),
            "f.json: \"h.0\".b is 7; expected true or false\n  fix: mend it");
  EXPECT_EQ(refusal("[3]", [](auto in) { in["a"]; }), "f.json is [3]; expected an object\n  fix: mend it");
  EXPECT_TRUE(has_parts(refusal(R"({"a": {}})", [](auto in) { in["a"]["b"]; }), {"f.json: a has no b;", "mend it"}));
}

TEST(Document, RefusesOtherTypesAndRanges) {
  const auto of = [](const char* value, auto read) {
    return refusal(std::string("{\"a\": ") + value + "}", [&](const DocumentValue& in) { read(in["a"]); });
  };
  for (const char* bad : {"10", "-1", "1.0", "\"1\"", "null", "true", "18446744073709551615", "[1]"}) {
    const std::string message = of(bad, [](const DocumentValue& value) { value.integer(0, 9); });
    EXPECT_TRUE(has_parts(message, {std::string("a is ") + bad, "an integer from 0 to 9"})) << bad;
  }
  for (const char* bad : {"-1", "1.5", "\"1\"", "18446744073709551616"}) {
    EXPECT_NE(of(bad, [](const DocumentValue& value) { value.count(); }), "") << bad;
  }
  for (const char* bad : {"0", "10.5", "\"1\"", "null"}) {
    const std::string message =
        of(bad, [](const DocumentValue& value) { value.number({.least = 0, .most = 10, .above = true}, "a time"); });
    EXPECT_TRUE(has_parts(message, {"a time above 0 and at most 10"})) << bad;
  }
  EXPECT_NE(of("1e39", [](const DocumentValue& value) { value.float_number(); }), "");
  EXPECT_NE(of("1", [](const DocumentValue& value) { value.boolean(); }), "");
  EXPECT_NE(of("{}", [](const DocumentValue& value) { value.items(); }), "");
  EXPECT_NE(of("[]", [](const DocumentValue& value) { value.members(); }), "");
  EXPECT_NE(of("[1]", [](const DocumentValue& value) { value.items(2, "two"); }), "");
}

TEST(Document, NamesWhatIsLikelyMeant) {
  const auto colour = [](const DocumentValue& in) { in["a"].one_of({Colour::red, Colour::green}); };
  EXPECT_TRUE(has_parts(refusal(R"({"a": "gren"})", colour), {"one of red, green", "did you mean \"green\"?"}));
  EXPECT_TRUE(has_parts(refusal(R"({"a": "indigoblue"})", colour), {"one of red, green", "mend it"}));
  EXPECT_TRUE(has_parts(refusal(R"({"a": {"layes": 1}})", [](const DocumentValue& in) { in["a"].only({"layers"}); }),
                        {"f.json: unknown key a.layes", "did you mean a.layers?"}));
  EXPECT_EQ(refusal(R"({"a": 1, "b": 2})", [](const DocumentValue& in) { in.only({"a", "b", "c"}); }), "");
}

TEST(Document, KnowsItsFormat) {
  const auto of = [](const char* text) {
    return testing::message_of<UserError>([&] { read_json(text, "f.json").of_format("a plan", "weft-plan", 2); });
  };
  EXPECT_EQ(of(R"({"format": "weft-plan", "version": 2})"), "");
  for (const char* other : {"[]", "1", "{}", R"({"format": "weft-graph", "version": 2})", R"({"format": 1})"}) {
    EXPECT_TRUE(has_parts(of(other), {"f.json isn't a plan", "weft-plan"})) << other;
  }
  EXPECT_TRUE(has_parts(of(R"({"format": "weft-plan", "version": 3})"), {"has version 3", "version 2"}));
  EXPECT_TRUE(has_parts(of(R"({"format": "weft-plan"})"), {"has no version"}));
}

TEST(ReadJson, ReadsWhatWasWritten) {
  for (const char* text : {"null", "true", "-1", "18446744073709551615", "1.5", "\"a\"", "[]", "{}", "[[],{}]",
                           R"({"a":[1,{"b":null}],"c":{"d":[true,false],"e":""}})"}) {
    EXPECT_EQ(read_json(text, "the file").root().json().dump(), text);
  }
}

// Like the header of a file of many tensors. The test would take half an hour if reading a value scanned all earlier
// ones.
TEST(ReadJson, TheWorkForAMemberIsTheSameHoweverManyThereAre) {
  constexpr int kMembers = 400'000;
  std::string text = "{";
  for (int i = 0; i < kMembers; ++i) {
    const std::string number = std::to_string(i);
    text.append(i == 0 ? "\"" : ",\"").append(number);
    text.append(R"(":{"dtype":"F32","shape":[1],"data_offsets":[0,)").append(number).append("]}");
  }
  EXPECT_EQ(read_json(text + "}", "the file").root().json().size(), kMembers);
  EXPECT_TRUE(has_parts(refusal(text + ",\"7\":{}}"), {"the key \"7\" twice"}));
}

TEST(ReadJson, RefusesAKeyTwiceInOneObject) {
  EXPECT_TRUE(has_parts(refusal(R"({"a": 1, "b": 2, "a": 3})"), {"f.json has the key \"a\" twice"}));
  EXPECT_TRUE(has_parts(refusal(R"({"x": [{"a": {}}, {"b": {}, "b": 0}]})"), {"\"b\" twice"}));
  EXPECT_TRUE(has_parts(refusal("{\"a\": 1, \"\\u0061\": 2}"), {"\"a\" twice"}));  // equal after unescaping
}

TEST(ReadJson, RefusesBrokenSyntax) {
  for (const char* text : {"", "{", "{\"a\":}", "{} x", "\"\xff\""}) {
    EXPECT_TRUE(has_parts(refusal(text), {"f.json isn't valid JSON"})) << text;
  }
}

TEST(ReadJson, RefusesDeepNesting) {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_EQ(refusal(nested(64)), "");
  EXPECT_TRUE(has_parts(refusal(nested(100)), {"f.json nests values more than 64 deep"}));
  EXPECT_TRUE(has_parts(refusal(nested(1'000'000)), {"more than 64 deep"}));
  EXPECT_TRUE(has_parts(refusal(std::string(1'000'000, '[')), {"more than 64 deep"}));
}

TEST(ReadJson, RefusesMoreValuesThanAnyFileNeeds) {
  std::string text = "[0";
  for (int i = 0; i < 4'000'000; ++i) text += ",0";
  EXPECT_TRUE(has_parts(refusal(text + "]"), {"holds more than 4000000 values"}));
}

TEST(ReadJson, RefusesNumbersThatNoDoubleHolds) {
  EXPECT_TRUE(has_parts(refusal("[1e400]"), {"isn't valid JSON", "1e400"}));
  EXPECT_TRUE(has_parts(refusal("[NaN]"), {"isn't valid JSON"}));
}

template <class Read>
std::string toml_refusal(std::string_view text, Read read, TomlKeys keys = TomlKeys::as_written) {
  return testing::message_of<UserError>([&] {
    const Document document = read_toml(text, "f.toml", "mend it", keys);
    read(document.root());
  });
}

TEST(TomlDocument, HasTheValuesOfTheFile) {
  const Document document =
      read_toml("a = 1\nb = 1.0\nc = [true, \"x\"]\n[d]\ne_f = inf\n[[g]]\nh = 2\n", "f.toml", "");
  const DocumentValue in = document.root();
  EXPECT_EQ(in["a"].integer(1, 1), 1);
  EXPECT_TRUE(in["b"].is_number() && !in["b"].is_integer());
  EXPECT_TRUE(in["c"].items()[0].boolean());
  EXPECT_EQ(in["c"].items()[1].text(), "x");
  EXPECT_EQ(in["d"]["e_f"].any_number(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(in["g"].items()[0]["h"].integer(2, 2), 2);
}

TEST(TomlDocument, RefusalsNameTheLine) {
  EXPECT_EQ(toml_refusal("a = 1\n\n[b]\nc = 2\n", [](auto in) { in["b"]["c"].text(); }),
            "f.toml line 4: b.c is 2; expected a text\n  fix: mend it");
  EXPECT_TRUE(has_parts(toml_refusal("a = inf\n", [](auto in) { in["a"].number(); }), {"line 1: a is inf"}));
  EXPECT_TRUE(
      has_parts(toml_refusal("a = 1979-05-27\n", [](auto in) { in["a"].text(); }), {"a is 1979-05-27", "a text"}));
  EXPECT_TRUE(has_parts(toml_refusal("[a]\n[[b]]\nc = 1\n", [](auto in) { in["b"].items()[0].only({"d"}); }),
                        {"line 3: unknown key b[0].c"}));
  EXPECT_TRUE(has_parts(toml_refusal("a = \n", nothing), {"f.toml line 1: ", "mend it"}));
  EXPECT_TRUE(has_parts(toml_refusal(std::string(70'000, '#'), nothing), {"is larger than 65536 bytes"}));
}

TEST(TomlDocument, KeysMayBeWrittenWithDashesOrNot) {
  const auto one = [](const DocumentValue& in) { in["a-b"].integer(1, 1); };
  EXPECT_EQ(toml_refusal("a_b = 1\n", one, TomlKeys::with_dashes), "");
  EXPECT_TRUE(has_parts(toml_refusal("a_b = 1\n", one), {"has no a-b"}));
  EXPECT_TRUE(has_parts(toml_refusal("a_b = 1\na-b = 1\n", one, TomlKeys::with_dashes), {"a-b is given twice"}));
  EXPECT_NE(toml_refusal("a = 1\na = 1\n", nothing), "");
}

TEST(TomlDocument, DeepTablesAreRefused) {
  std::string deep = "a";
  for (int i = 0; i < 30'000; ++i) deep += ".a";
  EXPECT_TRUE(has_parts(toml_refusal(deep + " = 1\n", nothing), {"line 1: values nest more than 64 deep"}));
}

}  // namespace
}  // namespace weft
