#include "base/text/escape.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace weft {
namespace {

TEST(Escape, XmlHasNoReservedOrForbiddenCharacters) {
  EXPECT_EQ(xml_escaped("a<b> & \"c\"\x01 é"), "a&lt;b&gt; &amp; &quot;c&quot;  é");
  EXPECT_EQ(xml_escaped("a\uFFFEb\uFFFF\uFFFD\n"), "a\uFFFDb\uFFFD\uFFFD\n");
  EXPECT_EQ(xml_escaped(""), "");
}

TEST(Escape, AScriptCannotBeEndedByItsData) {
  const std::string json = R"({"a<":["</script><!--"]})";
  EXPECT_EQ(script_escaped(json).find('<'), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(script_escaped(json)), nlohmann::json::parse(json));
}

TEST(Base64, IsThatOfTheStandard) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(base64("\xff\xfe\xfd"), "//79");
}

TEST(Base64, IsReadBack) {
  for (const std::string bytes : {"", "f", "fo", "foo", "foobar", "\xff\xfe\xfd"}) {
    EXPECT_EQ(base64_decoded(base64(bytes)), bytes);
  }
  for (const char* wrong : {"Zg", "Zg=", "Zh==", "Z===", "Zg==Zg==", "Z g=", "Zm9\n"}) {
    EXPECT_FALSE(base64_decoded(wrong)) << wrong;
  }
}

using Rows = std::vector<CsvRow>;

TEST(Csv, QuotesWhatHasSigns) {
  EXPECT_EQ(csv_line({"a", "", "b c"}), "a,,b c\n");
  EXPECT_EQ(csv_line({"x=1,y=2", "say \"so\"", "two\nlines"}), "\"x=1,y=2\",\"say \"\"so\"\"\",\"two\nlines\"\n");
}

TEST(Csv, ReadsWhatItWrites) {
  const Rows rows = {{"a", "b"}, {"x,\"y\"\n", ""}, {"", "\"\""}, {"é", " "}};
  std::string text;
  for (const CsvRow& row : rows) text += csv_line(row);
  EXPECT_EQ(read_csv(text), rows);
  EXPECT_EQ(read_csv("a,b\r\nc,\"d\"\r\n"), (Rows{{"a", "b"}, {"c", "d"}}));
  EXPECT_EQ(read_csv(""), Rows());
}

TEST(Csv, LeavesOutARowThatWasCutOff) {
  for (const char* cut : {"a,b\nc", "a,b\nc,", "a,b\nc,\"d", "a,b\nc,\"d\n", "a,b\nc,\"d\""}) {
    EXPECT_EQ(read_csv(cut), (Rows{{"a", "b"}})) << cut;
  }
}

TEST(Csv, RefusesQuotesWithinACell) {
  for (const char* wrong : {"a\"b\"\n", "\"a\"b\n", "\"a\"\"b\"\"\" \n", "\"a\" \"b\"\n"}) {
    EXPECT_FALSE(read_csv(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace weft
