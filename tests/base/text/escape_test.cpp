#include "base/text/escape.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace weft {
namespace {

TEST(Escape, XmlHasNoReservedOrForbiddenCharacters) {
  EXPECT_EQ(xml_escaped("a<b> & \"c\"\x01 é"), "a&lt;b&gt; &amp; &quot;c&quot;  é");
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

}  // namespace
}  // namespace weft
