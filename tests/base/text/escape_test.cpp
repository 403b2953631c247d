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

}  // namespace
}  // namespace weft
