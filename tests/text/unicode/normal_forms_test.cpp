#include "text/unicode/normal_forms.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include <cstdlib>
#include <string>

#include "base/utf8.h"
#include "tests/text/random_text.h"

namespace weft::text {
namespace {

/// By utf8proc on the whole text.
std::string whole_form(const std::string& text, int options) {
  utf8proc_uint8_t* made = nullptr;
  const auto size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &made, static_cast<utf8proc_option_t>(options | UTF8PROC_STABLE));
  std::string out(reinterpret_cast<const char*>(made), static_cast<std::size_t>(size));
  std::free(made);
  return out;
}

TEST(NormalForms, OfSomeTexts) {
  EXPECT_EQ(normalized("Cafe\xCC\x81 x", NormalForm::nfc), "Caf\xC3\xA9 x");
  EXPECT_EQ(normalized("Caf\xC3\xA9", NormalForm::nfd), "Cafe\xCC\x81");
  EXPECT_EQ(normalized("\xEF\xAC\x81ne", NormalForm::nfkc), "fine");  // "ﬁ"
  EXPECT_EQ(normalized("\xC2\xBD", NormalForm::nfkd),
            "1\xE2\x81\x84"
            "2");
  EXPECT_EQ(normalized("plain", NormalForm::nfc), "plain");
  EXPECT_EQ(normalized("", NormalForm::nfc), "");
  EXPECT_EQ(normalized(std::string_view("a\0b", 3), NormalForm::nfkd), std::string("a\0b", 3));
}

// Composing piece by piece changes what composing the whole changes.
TEST(NormalForms, PiecesGiveTheWhole) {
  testing::RandomText random(7);
  for (int i = 0; i < 3000; ++i) {
    const std::string text = random.marked_text(24);
    ASSERT_EQ(normalized(text, NormalForm::nfc), whole_form(text, UTF8PROC_COMPOSE)) << text;
    ASSERT_EQ(normalized(text, NormalForm::nfd), whole_form(text, UTF8PROC_DECOMPOSE)) << text;
    ASSERT_EQ(normalized(text, NormalForm::nfkc), whole_form(text, UTF8PROC_COMPOSE | UTF8PROC_COMPAT)) << text;
    ASSERT_EQ(normalized(text, NormalForm::nfkd), whole_form(text, UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT)) << text;
  }
}

TEST(NormalForms, LowerCaseIsOfEachCharacter) {
  EXPECT_EQ(lower_case("ABC \xC3\x89 \xCE\xA3"), "abc \xC3\xA9 \xCF\x83");
  EXPECT_EQ(lower_case("\xC4\xB0"), "i\xCC\x87");  // "İ"
}

TEST(NormalForms, AccentsAreMarksWithoutSpace) {
  EXPECT_EQ(without_accents("e\xCC\x81"), "e");
  EXPECT_EQ(without_accents("\xC3\xA9"), "\xC3\xA9");
}

}  // namespace
}  // namespace weft::text
