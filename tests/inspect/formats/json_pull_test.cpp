// Values in their order, whatever the pieces that the text comes in, and refusals with their place.
#include "inspect/formats/json_pull.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "tests/base/messages.h"

namespace weft::inspect {
namespace {

/// Hands out `piece` bytes at a time.
ByteSource in_pieces(std::string text, std::size_t piece) {
  return [text, piece, at = std::size_t{0}](std::span<char> to) mutable {
    const std::size_t count = std::min({piece, to.size(), text.size() - at});
    std::copy_n(text.begin() + static_cast<std::ptrdiff_t>(at), count, to.begin());
    at += count;
    return count;
  };
}

template <class Read>
std::string refusal(const std::string& text, const Read& read) {
  return testing::message_of<UserError>([&] {
    JsonPull in(text_source(text), "f");
    read(in);
    in.finish();
  });
}

TEST(JsonPull, ReadsValuesInPiecesOfAnySize) {
  const std::string text =
      " { \"a\" : [ 1 , -2 ,3], \"t\\u00e9xt\" :\"x\\n\\\"\\ud83d\\ude00y\", \"n\": 2.5e3,\"us\" : 12.34 , \"yes\": "
      "true,"
      "\"skip\": {\"x\": [1, {\"y\": \"}]\\\"\"}, null, -1.5E+2], \"z\": {}}, \"plain\": \"caf\xc3\xa9\"}  \n";
  for (std::size_t piece = 1; piece < 40; ++piece) {
    JsonPull in(in_pieces(text, piece), "f");
    in.open_object();
    std::string_view key;
    ASSERT_TRUE(in.next_key(key));
    EXPECT_EQ(key, "a");
    in.open_array();
    for (const int expected : {1, -2, 3}) {
      ASSERT_TRUE(in.next_item());
      EXPECT_EQ(in.integer(-5, 5), expected);
    }
    EXPECT_FALSE(in.next_item());
    ASSERT_TRUE(in.next_key(key));
    EXPECT_EQ(key, "t\xc3\xa9xt");
    EXPECT_EQ(in.kept_text(), "x\n\"\xf0\x9f\x98\x80y");
    ASSERT_TRUE(in.next_key(key));
    EXPECT_EQ(in.number(), 2500.0);
    ASSERT_TRUE(in.next_key(key));
    EXPECT_EQ(in.microseconds(), 12340);
    ASSERT_TRUE(in.next_key(key));
    EXPECT_TRUE(in.boolean());
    ASSERT_TRUE(in.next_key(key));
    in.skip();
    ASSERT_TRUE(in.next_key(key));
    EXPECT_EQ(in.kept_text(), "caf\xc3\xa9");
    EXPECT_FALSE(in.next_key(key));
    in.finish();
  }
}

TEST(JsonPull, MicrosecondsAreExact) {
  const auto of = [](const std::string& text) {
    JsonPull in(text_source(text), "f");
    return in.microseconds();
  };
  EXPECT_EQ(of("0"), 0);
  EXPECT_EQ(of("9007199254740993.001"), 9007199254740993001);
  EXPECT_EQ(of("9223372036854775.807"), INT64_MAX);
  for (const char* bad : {"9223372036854775.808", "-1", "-0", "1.", ".5", "1.0001", "1e3", "+1", "true"}) {
    EXPECT_THROW(of(bad), UserError) << bad;
  }
}

TEST(JsonPull, NamesThePlaceOfWhatItRefuses) {
  const auto expect = [](const std::string& text, const auto& read, std::string_view part) {
    EXPECT_TRUE(has_parts(refusal(text, read), {part})) << text;
  };
  const auto skip = [](JsonPull& in) { in.skip(); };
  const auto integer = [](JsonPull& in) { in.integer(8, 9); };
  const auto number = [](JsonPull& in) { in.number(); };
  const auto boolean = [](JsonPull& in) { in.boolean(); };
  const auto kept = [](JsonPull& in) { in.kept_text(); };
  expect("\n\n  [1 2]", skip, "f line 3 byte 7: found '2'; expected ',' or ']'");
  expect("{\"a\" 1}", skip, "expected ':'");
  expect("{\"a\": 1,}", skip, "found '}'; expected a text");
  expect("[1,]", skip, "found ']'");
  expect("[", skip, "breaks off");
  expect("\"abc", skip, "breaks off within a text");
  expect("\"a\tb\"", skip, "a control character");
  expect("\"\\x\"", skip, "an unknown escape");
  expect("\"\\ud800\"", skip, "half of a surrogate pair");
  expect("[] []", skip, "after the document");
  expect("7", integer, "found 7; expected an integer from 8 to 9");
  expect("7.5", integer, "found 7.5");
  expect("1e999", number, "found 1e999");
  expect("-1", number, "not negative");
  expect("nan", number, "found nan");
  expect("yes", boolean, "true or false");
  for (const char* bad : {"\"\xff\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"", "\"\xe2\x82\""}) {
    expect(bad, kept, "no UTF-8");
  }
  expect("\"" + std::string(3 << 20, 'x') + "\"", skip, "more than 1 MiB");
  expect("[" + std::string(500, '1') + "]", skip, "more than 400 digits");
}

}  // namespace
}  // namespace weft::inspect
