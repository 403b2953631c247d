// TOML as a document whose values know their lines.
#include "base/files/toml_document.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "tests/base/messages.h"

namespace weft {
namespace {

template <class Read>
std::string toml_refusal(std::string_view text, Read read, TomlKeys keys = TomlKeys::as_written) {
  return testing::message_of<UserError>([&] {
    const Document document = read_toml(text, "f.toml", "mend it", keys);
    read(document.root());
  });
}
void nothing(const DocumentValue& /*root*/) {}

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
