#include "text/chat/learnt_ids.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/base/temporary_folder.h"
#include "tests/text/formats/small_tokenizers.h"

namespace weft::text {
namespace {

using Ranges = std::vector<IdRange>;

Ranges ranges_of(const testing::SmallJson& json, const std::string& text, const Ranges& bytes) {
  const testing::TemporaryFolder folder;
  folder.write("tokenizer.json", json.text());
  const TokenizerPointer tokenizer = load_tokenizer(folder.path());
  const EncodeOptions options{.add_special = false};
  return ids_of_ranges(*tokenizer, text, tokenizer->encode(text, options), bytes, options);
}

// "ab", " ab", "<end>", "abc": ids 4, 5, 9, 6.
TEST(LearntIds, AreTheIdsThatHoldAPartOfTheRange) {
  const testing::SmallJson bytes;
  EXPECT_EQ(ranges_of(bytes, "ab ab<end>abc", {{0, 2}}), (Ranges{{0, 1}}));
  EXPECT_EQ(ranges_of(bytes, "ab ab<end>abc", {{3, 10}}), (Ranges{{1, 3}}));
  EXPECT_EQ(ranges_of(bytes, "ab ab<end>abc", {{1, 3}, {12, 13}}), (Ranges{{0, 2}, {3, 4}}));
  EXPECT_EQ(ranges_of(bytes, "ab ab<end>abc", {{5, 5}}), Ranges{});
  EXPECT_EQ(ranges_of(bytes, "", {{0, 0}}), Ranges{});
}

// A blank that the tokenizer adds has no byte in the text: "▁ab", "</s>", "▁", "ab".
TEST(LearntIds, PassOverBlanksThatTheTokenizerAdds) {
  EXPECT_EQ(ranges_of(testing::small_llama(), "ab</s>ab", {{0, 2}, {6, 8}}), (Ranges{{0, 1}, {2, 3}}));
  EXPECT_EQ(ranges_of(testing::small_llama(), "ab</s>ab", {{2, 6}}), (Ranges{{1, 2}}));
}

// The ids' texts aren't the text's: the ids before a border are those of the text that ends there.
TEST(LearntIds, OfATokenizerThatChangesTexts) {
  testing::SmallJson lower;
  lower.normalizer = R"({"type": "Lowercase"})";
  EXPECT_EQ(ranges_of(lower, "AB AB<end>ABC", {{3, 10}}), (Ranges{{1, 3}}));
  EXPECT_EQ(ranges_of(lower, "AB AB<end>ABC", {{10, 13}}), (Ranges{{3, 4}}));
}

}  // namespace
}  // namespace weft::text
