// `weft explain` as a process: its words, its figures, and what it refuses.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/base/messages.h"
#include "tests/tools/run_command.h"
#include "tests/tools/small_step.h"

namespace weft::tools {
namespace {

using nlohmann::json;

class ExplainCommandTest : public testing::SmallStep {
 protected:
  json explain(const std::vector<std::string>& more) const { return figures("explain", more); }
};

const std::vector<std::string> kOnTwo = {"--grid", "x=2", "--micro-batch", "2"};

/// The identifiers that programs may rely on.
const std::set<std::string> kCauses = {"data_dependency", "computation_order", "queued",
                                       "chosen",          "memory_limit",      "contention"};

TEST_F(ExplainCommandTest, ItsFiguresAgreeWithOneAnother) {
  for (const char* policy : {"serial", "program", "axonn", "lhs"}) {
    SCOPED_TRACE(policy);
    const json report = explain(testing::joined(kOnTwo, {"--policy", policy, "--most", "3"}));
    const double step = report.at("step_ms");
    EXPECT_EQ(report.at("policy"), policy);
    EXPECT_GE(step, report.at("bound_ms").get<double>() - 1e-5);
    double path = 0, exposed = 0, last = 1e300;
    for (const json& piece : report.at("path")) path += piece.at("ms").get<double>();
    EXPECT_NEAR(path, step, 1e-3);
    int remedied = 0;
    for (const json& one : report.at("collectives")) {
      EXPECT_LE(one.at("exposed_ms").get<double>(), last);
      last = one.at("exposed_ms");
      exposed += last;
      EXPECT_LE(last, one.at("duration_ms").get<double>() + 1e-9);
      EXPECT_LE(one.at("ready_ms").get<double>(), one.at("begin_ms").get<double>() + 1e-5);
      EXPECT_FALSE(one.at("because").get<std::string>().empty());
      EXPECT_TRUE(kCauses.contains(one.at("cause"))) << one;
      EXPECT_FALSE(one.at("cause_text").get<std::string>().empty());
      remedied += one.at("remedies").empty() ? 0 : 1;
      double gain = 1e300;
      for (const json& remedy : one.at("remedies")) {
        EXPECT_LE(remedy.at("gain_ms").get<double>(), gain);
        gain = remedy.at("gain_ms");
        EXPECT_LT(gain, step);
      }
    }
    EXPECT_EQ(remedied, std::min<int>(3, static_cast<int>(report.at("collectives").size())));
    // What is exposed for less than 1 µs isn't listed.
    EXPECT_GE(exposed, report.at("exposed_ms").get<double>() - 0.001 * 200);
    EXPECT_EQ(report.at("rewrites").size(), 4U);
    EXPECT_EQ(report.at("halved").at("micro_batch"), 1);
  }
}

// The gain is the difference to a step that is really planned with half of it.
TEST_F(ExplainCommandTest, HalvesTheMicroBatch) {
  const json whole = explain(kOnTwo), half = explain({"--grid", "x=2", "--micro-batch", "1"});
  EXPECT_NEAR(whole.at("halved").at("gain_ms").get<double>(),
              whole.at("step_ms").get<double>() - half.at("step_ms").get<double>(), 1e-9);
  EXPECT_FALSE(half.contains("halved"));
  const testing::CommandResult text = weft("explain", kOnTwo);
  EXPECT_TRUE(has(text.output, "Micro-batches of half the size, which add gradients in another order")) << text.output;
  EXPECT_TRUE(has(text.output, "--micro-batch 1\n"));
}

TEST_F(ExplainCommandTest, RewritesGainWhatTheySay) {
  const json plain = explain(testing::joined(kOnTwo, {"--policy", "serial"}));
  for (const json& rewrite : plain.at("rewrites")) {
    const json rewritten =
        explain(testing::joined(kOnTwo, {"--policy", "serial", "--rewrites", rewrite.at("what").get<std::string>()}));
    EXPECT_NEAR(plain.at("step_ms").get<double>() - rewritten.at("step_ms").get<double>(),
                rewrite.at("gain_ms").get<double>(), 1e-9)
        << rewrite;
  }
}

TEST_F(ExplainCommandTest, LayersAndMicroBatchesShareAParagraph) {
  const std::vector<std::string> words = {"--grid",   "x=2",    "--micro-batch",  "1",
                                          "--policy", "serial", "--model.layers", "6"};
  const testing::CommandResult result = weft("explain", words);
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const json report = explain(words);
  EXPECT_GT(report.at("collectives").size(), 40U);
  // Paragraphs begin behind an empty line and name what is exposed.
  EXPECT_LE(testing::count(result.output, " ms exposed\n"), 12U) << result.output;
  EXPECT_TRUE(has(result.output, "mb*.L*.")) << result.output;
  EXPECT_TRUE(has(result.output, ", ×")) << result.output;
  EXPECT_TRUE(has(result.output, "the worst, mb")) << result.output;
  EXPECT_TRUE(has(result.output, "\nWhat the step's length comes from, by phase:\n"));
  EXPECT_TRUE(has(result.output, "change no bit"));
}

TEST_F(ExplainCommandTest, OneCollective) {
  const json all = explain(kOnTwo);
  ASSERT_FALSE(all.at("collectives").empty());
  const std::string name = all.at("collectives").back().at("name");
  const json one = explain(testing::joined(kOnTwo, {"--collective", name}));
  ASSERT_EQ(one.at("collectives").size(), 1U);
  EXPECT_EQ(one.at("collectives").at(0).at("name"), name);
  EXPECT_EQ(one.at("collectives").at(0).at("exposed_ms"), all.at("collectives").back().at("exposed_ms"));
  EXPECT_FALSE(one.at("collectives").at(0).at("remedies").empty());
  const testing::CommandResult text = weft("explain", testing::joined(kOnTwo, {"--collective", name}));
  EXPECT_EQ(testing::count(text.output, " ms exposed\n"), 1U);
  EXPECT_TRUE(has(text.output, "\n" + name + " ("));
  std::string wrong = name;
  wrong.pop_back();
  expect_refused("explain", testing::joined(kOnTwo, {"--collective", wrong}),
                 {"no collective \"" + wrong + "\"", "write \"" + name + "\""});
}

// One rank has nothing to hide.
TEST_F(ExplainCommandTest, ARankAlone) {
  const json report = explain({"--ranks", "1"});
  EXPECT_TRUE(report.at("collectives").empty());
  EXPECT_EQ(report.at("exposed_ms"), 0.0);
}

TEST_F(ExplainCommandTest, RefusesWhatItCannotUse) {
  ASSERT_EQ(weft("plan", {"--grid", "x=2", "-o", "other.json"}).exit_code, 0);
  expect_refused("explain", {"--policy", "serail"}, {"unknown policy \"serail\"", "write \"serial\""});
  expect_refused("explain", {"--ranks", "2", "--policy", "file:other.json"}, {"other.json"});
  expect_refused("explain", {"--profile", "missing.json"}, {"missing.json"});
  expect_refused("explain", {"--profile", "text.txt"}, {"text.txt"});
  expect_refused("explain", {"--machine", "dgx-h1000"}, {"unknown machine", "dgx-h100"});
  expect_refused("explain", {"--most", "-1"}, {"--most"});
  expect_refused("explain", {"--grid", "x=3"}, {"x"});
}

}  // namespace
}  // namespace weft::tools
