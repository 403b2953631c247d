#include "text/bpe/bpe_model.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/base/messages.h"

namespace weft::text {
namespace {

using Ids = std::vector<std::int32_t>;

std::vector<BpeToken> tokens_of(const std::vector<std::string>& texts) {
  std::vector<BpeToken> tokens;
  for (const std::string& text : texts) tokens.push_back({text, static_cast<std::int32_t>(tokens.size())});
  return tokens;
}

Ids encoded(const BpeModel& model, std::string_view word) {
  BpeModel::Scratch scratch;
  Ids ids, again;
  model.encode(word, scratch, ids);
  model.encode(word, scratch, again);  // by the cache
  EXPECT_EQ(ids, again);
  return ids;
}

/// The definition: merges the leftmost pair of the lowest rank until there is none.
Ids by_definition(const std::vector<std::string>& texts, const Merges& merges, std::string_view word) {
  std::vector<std::string> parts;
  for (const char c : word) parts.emplace_back(1, c);
  while (true) {
    std::size_t best = merges.size(), place = 0;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      for (std::size_t rank = 0; rank < best; ++rank) {
        if (merges[rank] == std::pair(parts[i], parts[i + 1])) best = rank, place = i;
      }
    }
    if (best == merges.size()) break;
    parts[place] += parts[place + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
  Ids ids;
  for (const std::string& part : parts) {
    ids.push_back(static_cast<std::int32_t>(std::find(texts.begin(), texts.end(), part) - texts.begin()));
  }
  return ids;
}

TEST(BpeModel, ShortAndLongWordsFollowTheDefinition) {
  std::vector<std::string> texts{"a", "b", "c"};
  Merges merges;
  std::mt19937 engine(5);
  while (merges.size() < 40) {
    const std::string left = texts[engine() % texts.size()], right = texts[engine() % texts.size()];
    if (left.size() + right.size() > 9 ||
        std::find(merges.begin(), merges.end(), std::pair(left, right)) != merges.end())
      continue;
    merges.emplace_back(left, right);
    if (std::find(texts.begin(), texts.end(), left + right) == texts.end()) texts.push_back(left + right);
  }
  const BpeModel model(tokens_of(texts), merges, {.bytes = true, .unknown = {}});
  for (int i = 0; i < 300; ++i) {
    std::string word;
    for (std::size_t size = engine() % 200 + 1; size > 0; --size) word += "abc"[engine() % 3];
    ASSERT_EQ(encoded(model, word), by_definition(texts, merges, word)) << word;
  }
  EXPECT_EQ(encoded(model, ""), Ids{});
  EXPECT_EQ(encoded(model, "axb"), encoded(model, "ab"));  // without a token for unknown bytes they are left out
}

TEST(BpeModel, RanksMergeBytesThatAreATokenTogether) {
  const BpeModel model = BpeModel::of_ranks(tokens_of({"a", "b", "c", "bc", "abc", "xyz"}),
                                            {.bytes = true, .ignore_merges = true, .unknown = {}});
  EXPECT_EQ(encoded(model, "abc"), Ids{4});
  EXPECT_EQ(encoded(model, "aabcb"), (Ids{0, 4, 1}));
  EXPECT_EQ(encoded(model, "xyz"), Ids{5});  // whole, though no merge makes it
}

TEST(BpeModel, UnknownCharacters) {
  const std::vector<std::string> texts{"<unk>", "a", "<0xC3>", "<0xA9>"};
  const auto ids = [&](bool fallback, bool fuse, std::string_view word) {
    return encoded(
        BpeModel(tokens_of(texts), Merges(), {.byte_fallback = fallback, .fuse_unknown = fuse, .unknown = "<unk>"}),
        word);
  };
  EXPECT_EQ(ids(true, false, "a\xC3\xA9"), (Ids{1, 2, 3}));
  EXPECT_EQ(ids(false, false, "aééa"), (Ids{1, 0, 0, 1}));
  EXPECT_EQ(ids(false, true, "aééa"), (Ids{1, 0, 1}));
  EXPECT_EQ(ids(true, true, "xa"), (Ids{0, 1}));  // not all of its bytes have tokens
}

TEST(BpeModel, CutsAtBlanksOnlyIfNoMergeCrossesThem) {
  const std::string blank = "\xE2\x96\x81";
  const std::vector<std::string> texts{blank, "a", "b", blank + "a", "a" + blank};
  const auto ids = [&](const Merges& merges) {
    const BpeModel model(tokens_of(texts), merges, {.unknown = {}});
    BpeModel::Scratch scratch;
    Ids made;
    model.encode_text(blank + "ab" + blank + blank + "a" + blank + "b", scratch, made);
    return made;
  };
  EXPECT_EQ(ids({{blank, "a"}}), (Ids{3, 2, 0, 3, 0, 2}));
  EXPECT_EQ(ids({{"a", blank}}), (Ids{0, 1, 2, 0, 0, 4, 2}));
}

TEST(BpeModel, RefusesMergesOfMissingTokens) {
  const auto refusal = [](const Merges& merges, std::optional<std::string> unknown) {
    return testing::message_of<UserError>([&] {
      BpeModel(tokens_of({"a", "b", "ab"}), merges, {.place = "x.json", .unknown = std::move(unknown)});
    });
  };
  EXPECT_TRUE(has_parts(refusal({{"a", "b"}, {"b", "a"}}, {}), {"x.json", "merge 2", "'ba' isn't a token"}));
  EXPECT_TRUE(has_parts(refusal({}, "<unk>"), {"x.json", "'<unk>'"}));
}

}  // namespace
}  // namespace weft::text
