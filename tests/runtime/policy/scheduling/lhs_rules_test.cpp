#include "runtime/policy/scheduling/lhs_rules.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "base/error.h"
#include "runtime/policy/catalog/policies.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"

namespace weft::policy {
namespace {

using Rules = std::vector<LhsRule>;

std::string refusal_of_rules(const std::string& text) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "mine.toml";
  std::ofstream(file) << text;
  return testing::message_of<UserError>([&] { read_lhs_rules(file); });
}

TEST(LhsRules, AreJoinedByPlus) {
  EXPECT_EQ(parse_lhs_rules("less-memory+critical"),
            (Rules{LhsRule::less_memory, LhsRule::critical, LhsRule::program}));
  EXPECT_EQ(parse_lhs_rules("program+near"), (Rules{LhsRule::program, LhsRule::near}));
}

TEST(LhsRules, CanStandInAFile) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "mine.toml";
  std::ofstream(file) << "rules = [\"hide\",  # first\n  \"unlock\"]\n";
  EXPECT_EQ(lhs_rules(file.string()), (Rules{LhsRule::hide, LhsRule::unlock, LhsRule::program}));
}

TEST(LhsRules, TheExampleIsTheDefault) {
  const Rules rules = read_lhs_rules(std::filesystem::path(WEFT_SOURCE_DIR) / "examples/lhs_rules.toml");
  EXPECT_EQ(rules, parse_lhs_rules("memory+release+critical+unlock+consumer+program"));
}

TEST(LhsRules, RefusesFilesByLine) {
  EXPECT_TRUE(testing::has_parts(refusal_of_rules("rules = [\n\"memory\",\n\"relase\"]"),
                                 {"line 3: unknown rule \"relase\"", "release"}));
  EXPECT_TRUE(
      testing::has_parts(refusal_of_rules("rules = [\"near\",\n\"near\"]"), {"line 2: rule near occurs twice"}));
  EXPECT_TRUE(testing::has_parts(refusal_of_rules("rules = [1]"), {"line 1: rules[0] is 1", "a text"}));
  EXPECT_TRUE(testing::has_parts(refusal_of_rules("rules = \"near\""), {"line 1: rules is \"near\"", "a list"}));
  EXPECT_TRUE(testing::has_parts(refusal_of_rules(""), {"has no rules"}));
  EXPECT_TRUE(testing::has_parts(refusal_of_rules("rules = [\"near\"]\nrule = 1"),
                                 {"line 2: unknown key rule", "did you mean rules?"}));
  EXPECT_TRUE(testing::has_parts(refusal_of_rules("rules = ["), {"line 1: "}));
  EXPECT_TRUE(testing::has_parts(refusal_of_rules(std::string(70'000, '#')), {"larger than"}));
}

TEST(LhsRules, AMissingFileIsNamed) {
  const std::string message = testing::message_of<UserError>([] { make_policy("lhs:rules=/nowhere/mine.toml"); });
  EXPECT_TRUE(testing::has_parts(message, {"/nowhere/mine.toml can't be read"}));
}

}  // namespace
}  // namespace weft::policy
