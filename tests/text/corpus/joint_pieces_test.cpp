// Prompts with completions, encoded as the package `tokenizers` encodes their texts as a whole. The values are those of
// tests/reference/make_joint_pieces, which runs it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/base/temporary_folder.h"
#include "text/corpus/text_files.h"
#include "text/tokenizer.h"

namespace weft::text {
namespace {

/// Ids, and 1 for each that is learnt.
struct MarkedIds {
  std::vector<std::int32_t> ids, learnt;
};

std::vector<MarkedIds> encoded_lines(const testing::TemporaryFolder& folder, const nlohmann::json& kind) {
  std::string lines;
  for (const auto& each : kind.at("lines")) lines += each.at("line").dump() + "\n";
  folder.write("tokenizer.json", kind.at("tokenizer").dump());
  folder.write("tokenizer_config.json", nlohmann::json{{"eos_token", kind.at("end")}}.dump());
  const TokenizerPointer tokenizer = load_tokenizer(folder.path());
  TextFiles files({folder.write("a.jsonl", lines)}, {}, [](std::string_view text, std::size_t) { return text.size(); });
  std::vector<MarkedIds> made;
  encode_in_order({.tokenizer = *tokenizer,
                   .options = {.add_special = false, .special_texts = SpecialTexts::plain},
                   .threads = 1,
                   .files = files,
                   .take = [&](const TextPart&, const EncodedPart& part) {
                     MarkedIds& line = made.emplace_back();
                     line.ids.assign(part.ids.begin(), part.ids.end());
                     line.learnt.assign(part.ids.size(), 1);
                     for (const IdRange& range : part.ignored) {
                       for (std::uint64_t i = range.begin; i < range.end; ++i) line.learnt.at(i) = 0;
                     }
                   }});
  return made;
}

TEST(JointPieces, HaveTheIdsAndMarksOfTheWholeText) {
  const auto golden = nlohmann::json::parse(
      testing::TemporaryFolder::read(WEFT_SOURCE_DIR "/tests/reference/golden/joint_pieces.json"));
  std::size_t whole = 0, cut = 0;
  for (const auto& [name, kind] : golden.items()) {
    SCOPED_TRACE(name);
    const testing::TemporaryFolder folder;
    const std::vector<MarkedIds> made = encoded_lines(folder, kind);
    ASSERT_EQ(made.size(), kind.at("lines").size());
    for (std::size_t i = 0; i < made.size(); ++i) {
      const nlohmann::json& expected = kind.at("lines").at(i);
      EXPECT_EQ(made[i].ids, expected.at("ids").get<std::vector<std::int32_t>>()) << expected.at("line");
      EXPECT_EQ(made[i].learnt, expected.at("learnt").get<std::vector<std::int32_t>>()) << expected.at("line");
      (expected.at("cut").get<bool>() ? cut : whole) += 1;
    }
  }
  EXPECT_EQ(golden.size(), 7U);
  EXPECT_GE(whole, 40U);
  EXPECT_GE(cut, 7U);
}

// The prompt of `generate` has the ids with which the trained line begins.
TEST(JointPieces, BeginWithThePromptAlone) {
  const auto golden = nlohmann::json::parse(
      testing::TemporaryFolder::read(WEFT_SOURCE_DIR "/tests/reference/golden/joint_pieces.json"));
  for (const auto& [name, kind] : golden.items()) {
    SCOPED_TRACE(name);
    const testing::TemporaryFolder folder;
    const std::vector<MarkedIds> made = encoded_lines(folder, kind);
    const TokenizerPointer tokenizer = load_tokenizer(folder.path());
    const auto separator = tokenizer->facts().separator();
    ASSERT_TRUE(separator.has_value());
    for (std::size_t i = 0; i < made.size(); ++i) {
      const nlohmann::json& line = kind.at("lines").at(i).at("line");
      if (!line.contains("prompt")) continue;
      std::vector<std::int32_t> trained{*separator};
      for (std::size_t at = 0; made[i].learnt[at] == 0; ++at) trained.push_back(made[i].ids[at]);
      EXPECT_EQ(tokenizer->encode_prompt(line.at("prompt").get<std::string>()), trained) << line;
    }
  }
}

}  // namespace
}  // namespace weft::text
