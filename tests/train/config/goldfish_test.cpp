#include "train/config/goldfish.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tests/base/messages.h"

namespace weft::train {
namespace {

TEST(Goldfish, IsReadAndWritten) {
  using Strategy = Goldfish::Strategy;
  const std::vector<std::pair<std::string, Goldfish>> cases = {
      {"k=4,h=13,strategy=hash", {4, 13, Strategy::hash}},
      {"k=2,h=1,strategy=avalanche", {2, 1, Strategy::avalanche}},
      {"k=3,strategy=static", {3, 13, Strategy::fixed}},
      {"k=3,strategy=random", {3, 13, Strategy::random}},
  };
  for (const auto& [text, goldfish] : cases) {
    EXPECT_EQ(goldfish_of(text, "--goldfish"), goldfish);
    EXPECT_EQ(to_text(goldfish), text);
  }
  EXPECT_EQ(goldfish_of("strategy=hash,k=8", "--goldfish"), (Goldfish{8, 13, Strategy::hash}));
  EXPECT_EQ(goldfish_of("", "--goldfish"), std::nullopt);
  EXPECT_EQ(to_text(std::nullopt), "");
}

TEST(Goldfish, RefusesWhatItDoesntKnow) {
  const std::vector<std::pair<std::string, std::vector<std::string_view>>> cases = {
      {"k=1", {"--goldfish: k = 1 is out of range", "2"}},
      {"k=x", {"--goldfish: k", "not an integer"}},
      {"h=0", {"--goldfish: h = 0 is out of range"}},
      {"4", {"\"4\" is not a member and its value", "k=4"}},
      {"k=4,", {"\"\" is not a member"}},
      {"k=4,k=5", {"k is given twice"}},
      {"width=13", {"unknown member \"width\"", "k=4,h=13,strategy=hash"}},
      {"strategy=hush",
       {"--goldfish: strategy = \"hush\" is unknown", "one of hash, avalanche, static, random",
        "did you mean \"hash\""}},
      {"h=4,strategy=static", {"h = 4 with a strategy that reads no context", "leave h out"}},
  };
  for (const auto& [text, parts] : cases) {
    const std::string message = testing::message_of<UserError>([&, t = text] { goldfish_of(t, "--goldfish"); });
    for (const std::string_view part : parts) EXPECT_TRUE(has_parts(message, {part})) << text;
  }
}

}  // namespace
}  // namespace weft::train
