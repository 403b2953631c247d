// `weft study` as a process: files of a scaling study agree with what search and simulate tell, wrong words are
// refused.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/text/escape.h"
#include "tests/tools/weft_folder.h"

namespace weft::tools {
namespace {

using nlohmann::json;

class StudyCommand : public testing::WeftFolder {
 protected:
  static Words scaling(const Words& more) {
    return testing::joined(
        {"study", "scaling", "--model", "tiny", "--machine", "perlmutter", "--global-batch", "8", "--finalists", "2"},
        more);
  }
};

TEST_F(StudyCommand, ScalesAsSearchFinds) {
  const json all =
      object_of(scaling({"--points", "1", "2", "7", "--kind", "strong", "-o", "a.csv", "-o", "a.svg", "-o", "a.json"}));
  const json& rows = all.at("rows");
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_NE(rows[2].at("reason").get<std::string>().find("7 ranks"), std::string::npos);
  const json best = object_of({"search", "--model", "tiny", "--machine", "perlmutter", "--global-batch", "8",
                               "--finalists", "2", "--ranks", "2"})
                        .at("configurations")[0];
  for (const char* key : {"step_ms", "memory_bytes", "grid", "policy", "micro_batch", "mfu"}) {
    EXPECT_EQ(rows[1].at(key), best.at(key)) << key;
  }
  EXPECT_EQ(read_json("a.json"), all);
  EXPECT_EQ(read_csv(read("a.csv"))->size(), 4U);
  EXPECT_NE(read("a.svg").find("strong scaling of tiny"), std::string::npos);
}

TEST_F(StudyCommand, RefusesWhatItCantStudy) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong = {
      {{"--points", "1"}, "--kind"},
      {{"--kind", "weak"}, "--points"},
      {{"--points", "1", "--kind", "middling"}, "weak"},
      {{"--points", "one", "--kind", "weak"}, "--points one"},
      {{"--points", "1", "1", "--kind", "weak"}, "twice"},
      {{"--points", "2", "--kind", "weak", "--ranks", "2"}, "leave it out"},
      {{"--points", "2", "--kind", "weak", "--seeds", "2"}, "noise"},
      {{"--points", "1", "8:tiny", "--kind", "weak"}, "names no model"},
      {{"--points", "1:tiny", "--kind", "weak", "--models", "small"}, "--models"},
      {{"--points", "3", "4", "--kind", "weak"}, "whole number"},
      {{"--points", "2:tinny", "--kind", "weak"}, "tinny"},
      {{"--points", "2:missing.toml", "--kind", "weak"}, "missing.toml"},
      {{"--points", "2", "--kind", "weak", "--machines", "perlmuter"}, "perlmutter"},
      {{"--points", "2", "--kind", "weak", "--policies", "fastest"}, "fastest"},
      {{"--points", "2", "--kind", "weak", "--keep", "policy"}, "--keep policy"},
      {{"--points", "2", "--kind", "weak", "-o", "a.png"}, ".svg"},
      {{"--points", "2", "--kind", "weak", "--lr", "1"}, "weft study scaling doesn't read --lr"},
      {{"--points", "7", "11", "--kind", "strong"}, "none of the 2 points"}};
  for (const auto& [more, part] : wrong) {
    expect_refusal(scaling(more), {part});
  }
  EXPECT_EQ(run({"study"}).exit_code, 2);
}

}  // namespace
}  // namespace weft::tools
