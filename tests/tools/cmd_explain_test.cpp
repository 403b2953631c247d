// `weft explain` as a process: its words, its figures, and what it refuses.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/base/messages.h"
#include "tests/tools/run_command.h"
#include "tests/tools/small_step.h"

namespace weft::tools {
namespace {

using nlohmann::json;

class ExplainCommandTest : public testing::SmallStep {
 protected:
  json explain(const std::vector<std::string>& more) const { return figures("explain", more); }

  /// Every collective is in one group; numbers of remedies follow the groups; gains fall.
  static void expect_groups_agree(const json& report, int most) {
    std::size_t members = 0;
    int remedied = 0, next = 1;
    double exposed = 0;
    const auto expect_remedies = [&](const json& remedies) {
      double gain = 1e300;
      for (const json& remedy : remedies) {
        EXPECT_LT(remedy.at("gain_ms").get<double>(), report.at("step_ms").get<double>());
        if (remedy.at("kind") == "no_time") continue;  // comes last
        EXPECT_LE(remedy.at("gain_ms").get<double>(), gain);
        gain = remedy.at("gain_ms");
        const bool possible = remedy.at("keeps_memory") && gain >= 0.0005;
        EXPECT_EQ(remedy.contains("number"), possible) << remedy;
        if (possible) {
          EXPECT_EQ(remedy.at("number"), next++);
        }
      }
    };
    for (const json& group : report.at("groups")) {
      members += group.at("members").size();
      exposed += group.at("exposed_ms").get<double>();
      remedied += group.at("remedies").empty() ? 0 : 1;
      expect_remedies(group.at("remedies"));
    }
    expect_remedies(report.at("between_passes"));
    expect_remedies(report.at("rewrites"));
    EXPECT_EQ(members, report.at("collectives").size());
    EXPECT_NEAR(exposed, report.at("explained_exposed_ms").get<double>(), 1e-6);
    EXPECT_EQ(remedied, std::min<int>(most, static_cast<int>(report.at("groups").size())));
  }

  /// Applies the remedies, replays the plan that was written, and compares. Returns the gain in ms.
  double applied_gain(const std::vector<std::string>& words, const json& before, const std::string& numbers,
                      double promised) const {
    const json report = explain(testing::joined(words, {"--apply", numbers, "-o", "applied.json"}));
    const json& applied = report.at("applied");
    EXPECT_NEAR(applied.at("promised_ms").get<double>(), promised, 1e-6);
    EXPECT_EQ(report.at("files"), json::array({"applied.json"}));
    const double step = before.at("step_ms");
    EXPECT_NEAR(applied.at("gain_ms").get<double>(), step - applied.at("step_ms").get<double>(), 1e-6);
    std::vector<std::string> replay = words;
    const auto policy = std::ranges::find(replay, "--policy");
    EXPECT_NE(policy, replay.end());
    *(policy + 1) = "file:applied.json";
    const json simulated = figures("simulate", replay);
    EXPECT_NEAR(simulated.at("step_seconds").get<double>() * 1e3, applied.at("step_ms").get<double>(), 1e-6);
    EXPECT_EQ(simulated.at("memory_bytes"), applied.at("memory_bytes"));
    return step - simulated.at("step_seconds").get<double>() * 1e3;
  }
};

const std::vector<std::string> kOnTwo = {"--grid", "x=2", "--micro-batch", "2"};

/// The identifiers that programs may rely on.
const std::set<std::string> kCauses = {"data_dependency", "computation_order", "local_task", "queued",
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
    for (const json& one : report.at("collectives")) {
      EXPECT_LE(one.at("exposed_ms").get<double>(), last);
      last = one.at("exposed_ms");
      exposed += last;
      EXPECT_LE(last, one.at("duration_ms").get<double>() + 1e-9);
      EXPECT_LE(one.at("ready_ms").get<double>(), one.at("begin_ms").get<double>() + 1e-5);
      EXPECT_FALSE(one.at("because").get<std::string>().empty());
      EXPECT_TRUE(kCauses.contains(one.at("cause"))) << one;
      EXPECT_FALSE(one.at("cause_text").get<std::string>().empty());
      EXPECT_LE(one.at("too_late_ms").get<double>(), one.at("exposed_ms").get<double>());
      EXPECT_EQ(one.at("late_ms").is_null(), one.at("data_by").is_null());
    }
    expect_groups_agree(report, 3);
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
  const testing::CommandResult text = weft("explain", testing::joined(kOnTwo, {"--all"}));
  EXPECT_TRUE(has_parts(text.output,
                        {"Micro-batches of half the size, which add gradients in another order", "--micro-batch 1\n"}));
}

TEST_F(ExplainCommandTest, RewritesGainWhatTheySay) {
  const Words serial = testing::joined(kOnTwo, {"--policy", "serial"});
  const json plain = explain(serial);
  for (const json& rewrite : plain.at("rewrites")) {
    const json rewritten = explain(testing::joined(serial, {"--rewrites", rewrite.at("what").get<std::string>()}));
    EXPECT_NEAR(plain.at("step_ms").get<double>() - rewritten.at("step_ms").get<double>(),
                rewrite.at("gain_ms").get<double>(), 1e-9)
        << rewrite;
  }
}

TEST_F(ExplainCommandTest, LayersAndMicroBatchesShareAParagraph) {
  const Words words = testing::words_in("--grid x=2 --micro-batch 1 --policy serial --model.layers 6");
  const testing::CommandResult result = testing::succeeded(weft("explain", testing::joined(words, {"--all"})));
  const json report = explain(words);
  EXPECT_GT(report.at("collectives").size(), 40U);
  // Paragraphs begin after an empty line and name what is exposed.
  EXPECT_LE(testing::count(result.output, "    cause"), 12U) << result.output;
  EXPECT_TRUE(has_parts(result.output, {"mb*.L*.", ", ×", "    worst  mb",
                                        "\nWhat the step's length comes from, by phase:\n", "change no bit"}));
}

// A link so slow that the order hardly matters: what is sent does.
TEST_F(ExplainCommandTest, TheVerdictOfASlowLinkIsToSendLess) {
  folder_.write("slow.toml",
                "name = \"slow\"\ndevices-per-node = 1\n[device]\nflops-f32 = 100e9\nflops-bf16 = 100e9\n"
                "memory-bandwidth = 15e9\nmemory-bytes = 16e9\ntask-overhead = 1e-9\ncores = 1\n"
                "[node]\nlatency = 1e-9\nbandwidth = 1e6\n[network]\nports = 1\nlatency = 1e-9\nbandwidth = 1e6\n");
  const Words words = testing::joined({"--grid", "data=2", "--machine", "slow.toml", "--policy", "portfolio"}, {});
  const json report = explain(words);
  const json& verdict = report.at("verdict");
  EXPECT_EQ(verdict.at("bound_by"), "communication");
  EXPECT_NEAR(verdict.at("busy_ms").get<double>(), report.at("communication_ms").get<double>(), 1e-9);
  ASSERT_FALSE(verdict.at("changes").empty());
  EXPECT_LE(verdict.at("changes").size(), 3U);
  const json& best = verdict.at("changes").at(0);
  EXPECT_EQ(best.at("what"), "--reduce-dtype bf16");
  const json less = explain(testing::joined(words, {"--reduce-dtype", "bf16"}));
  EXPECT_NEAR(best.at("gain_ms").get<double>(), report.at("step_ms").get<double>() - less.at("step_ms").get<double>(),
              1e-6);
  const std::string text = testing::succeeded(weft("explain", words)).output;
  EXPECT_TRUE(text.starts_with("verdict  bound by communication: the network is busy ")) << text;
  EXPECT_TRUE(has_parts(text, {"ms  --reduce-dtype bf16 (changes roundings)", "--all"}));
  EXPECT_FALSE(has(text, "    cause"));
}

TEST_F(ExplainCommandTest, TheVerdictOfALateOrderNamesItsBestRemedies) {
  const json report = explain(testing::joined(kOnTwo, {"--policy", "serial"}));
  const json& verdict = report.at("verdict");
  EXPECT_EQ(verdict.at("bound_by"), "order");
  EXPECT_NEAR(verdict.at("busy_ms").get<double>(),
              report.at("step_ms").get<double>() - report.at("bound_ms").get<double>(), 1e-9);
  double best = report.at("halved").at("gain_ms"), last = 1e300;
  const auto look = [&](const json& remedies) {
    for (const json& remedy : remedies) {
      if (remedy.contains("number")) best = std::max(best, remedy.at("gain_ms").get<double>());
    }
  };
  for (const json& group : report.at("groups")) look(group.at("remedies"));
  look(report.at("between_passes"));
  look(report.at("rewrites"));
  ASSERT_FALSE(verdict.at("changes").empty());
  EXPECT_GE(verdict.at("changes").at(0).at("gain_ms").get<double>(), best);
  for (const json& change : verdict.at("changes")) {
    EXPECT_GT(change.at("gain_ms").get<double>(), 0);
    EXPECT_LE(change.at("gain_ms").get<double>(), last);
    last = change.at("gain_ms");
  }
}

TEST_F(ExplainCommandTest, OneCollective) {
  const json all = explain(kOnTwo);
  ASSERT_FALSE(all.at("collectives").empty());
  const std::string name = all.at("collectives").back().at("name");
  const json one = explain(testing::joined(kOnTwo, {"--collective", name}));
  ASSERT_EQ(one.at("collectives").size(), 1U);
  EXPECT_EQ(one.at("collectives").at(0).at("name"), name);
  EXPECT_EQ(one.at("collectives").at(0).at("exposed_ms"), all.at("collectives").back().at("exposed_ms"));
  EXPECT_FALSE(one.at("groups").at(0).at("remedies").empty());
  const testing::CommandResult text = weft("explain", testing::joined(kOnTwo, {"--collective", name}));
  EXPECT_EQ(testing::count(text.output, "    cause"), 1U);
  EXPECT_TRUE(has(text.output, "\n" + name + " ("));
  std::string wrong = name;
  wrong.pop_back();
  expect_refused("explain", testing::joined(kOnTwo, {"--collective", wrong}),
                 {"no collective \"" + wrong + "\"", "write \"" + name + "\""});
}

TEST_F(ExplainCommandTest, AGroupByItsPrintedName) {
  const std::vector<std::string> words = testing::joined(kOnTwo, {"--policy", "serial"});
  const json all = explain(words);
  const json& group = all.at("groups").at(0);
  ASSERT_GT(group.at("members").size(), 1U);
  const json some = explain(testing::joined(words, {"--collective", group.at("name").get<std::string>()}));
  EXPECT_EQ(some.at("groups").at(0), group);
  EXPECT_EQ(some.at("exposed_ms"), all.at("exposed_ms"));
  EXPECT_LT(some.at("explained_exposed_ms"), some.at("exposed_ms"));
}

// A remedy of every kind: the step of the plan that is written is as much shorter as the remedy promises, to 1 %.
TEST_F(ExplainCommandTest, APlanWithARemedyGainsWhatWasPromised) {
  const Words large = testing::words_in(
      "--machine dgx-h100 --dtype bf16 --model.layers 4 --model.hidden 1024 --model.ffn 4096 --model.context 512 "
      "--seq-len 512 --global-batch 32 --micro-batch 4");
  const std::vector<std::vector<std::string>> steps = {
      {"--policy", "serial", "--grid", "y=2,z=2"},
      {"--policy", "program", "--grid", "z=4", "--reduce-dtype", "bf16", "--recompute", "block"},
      {"--policy", "axonn", "--grid", "y=2,z=2,data=2", "--recompute", "block"},
      {"--policy", "fsdp", "--grid", "z=4"}};
  std::set<std::string> kinds;
  for (const std::vector<std::string>& step : steps) {
    const std::vector<std::string> words = testing::joined(large, step);
    const json report = explain(words);
    std::vector<json> remedies;
    for (const json& group : report.at("groups")) {
      for (const json& remedy : group.at("remedies")) remedies.push_back(remedy);
    }
    for (const json& remedy : report.at("between_passes")) remedies.push_back(remedy);
    for (const json& remedy : report.at("rewrites")) remedies.push_back(remedy);
    std::set<std::string> tried;
    for (const json& remedy : remedies) {
      if (!remedy.contains("number") || !tried.insert(remedy.at("kind")).second) continue;
      kinds.insert(remedy.at("kind"));
      const double promised = remedy.at("gain_ms");
      const double gain = applied_gain(words, report, std::to_string(remedy.at("number").get<int>()), promised);
      EXPECT_NEAR(gain, promised, 0.01 * promised) << step[1] << " " << remedy;
    }
  }
  EXPECT_EQ(kinds, (std::set<std::string>{"issue_earlier", "issue_later", "pass_queue", "local_task", "unblock",
                                          "computations_first", "computations_moved", "rewrite"}));
}

TEST_F(ExplainCommandTest, RemediesTogether) {
  const std::vector<std::string> words = testing::joined(kOnTwo, {"--policy", "serial"});
  const json report = explain(words);
  std::vector<std::pair<int, double>> best;  // of the first two groups
  for (const json& group : report.at("groups")) {
    if (group.at("remedies").empty()) continue;
    const json& remedy = group.at("remedies").at(0);
    if (remedy.contains("number")) best.emplace_back(remedy.at("number"), remedy.at("gain_ms"));
  }
  ASSERT_GE(best.size(), 2U);
  const double gain = applied_gain(words, report, std::to_string(best[1].first) + "," + std::to_string(best[0].first),
                                   best[0].second + best[1].second);
  EXPECT_GT(gain, 0);
  // Without -o nothing is written.
  const json unwritten = explain(testing::joined(words, {"--apply", "1"}));
  EXPECT_EQ(unwritten.at("files"), json::array());
  EXPECT_GT(unwritten.at("applied").at("gain_ms").get<double>(), 0);
  const testing::CommandResult text = weft("explain", testing::joined(words, {"--apply", "1", "-o", "one.json"}));
  EXPECT_TRUE(has(text.output, "--policy file:one.json")) << text.output;
}

// A plan with remedies computes the same numbers.
TEST_F(ExplainCommandTest, ARunTakesThePlan) {
  const std::vector<std::string> words = {"--grid", "x=2", "--micro-batch", "2", "--policy", "serial"};
  ASSERT_EQ(weft("explain", testing::joined(words, {"--apply", "1", "-o", "plan.json"})).exit_code, 0);
  std::vector<double> losses;
  for (const char* policy : {"serial", "file:plan.json"}) {
    const json run = figures("train", {"--grid", "x=2", "--micro-batch", "2", "--policy", policy, "--steps", "2",
                                       "--run-dir", std::string("run") + (losses.empty() ? "0" : "1"), "--quiet"});
    losses.push_back(run.at("last_loss"));
  }
  EXPECT_EQ(losses[0], losses[1]);
}

// One rank has nothing to hide.
TEST_F(ExplainCommandTest, ARankAlone) {
  const json report = explain({"--ranks", "1"});
  EXPECT_TRUE(report.at("collectives").empty());
  EXPECT_EQ(report.at("exposed_ms"), 0.0);
}

TEST_F(ExplainCommandTest, RefusesWhatItCannotUse) {
  ASSERT_EQ(weft("plan", {"--grid", "x=2", "-o", "other.json"}).exit_code, 0);
  expect_refused("explain", {"--ranks", "2", "--policy", "file:other.json"}, {"other.json"});
  expect_refused("explain", {"--profile", "text.txt"}, {"text.txt"});
  expect_refused("explain", {"--most", "-1"}, {"--most"});
  const std::vector<std::string> serial = testing::joined(kOnTwo, {"--policy", "serial"});
  for (const auto& [numbers, part] : std::vector<std::pair<std::string, std::string>>{{"99", "there is no remedy 99"},
                                                                                      {"1,1", "chosen twice"},
                                                                                      {"1,x", "--apply"},
                                                                                      {"0", "--apply"},
                                                                                      {"1,", "--apply"}}) {
    expect_refused("explain", testing::joined(serial, {"--apply", numbers, "-o", "no.json"}), {part});
  }
  expect_refused("explain", testing::joined(serial, {"-o", "no.json"}), {"-o without --apply"});
  expect_refused("explain", testing::joined(serial, {"--apply", "1", "-o", "missing/no.json"}), {"missing"});
  EXPECT_FALSE(exists("no.json"));
  expect_refused("explain", {"--grid", "x=3"}, {"x"});
}

}  // namespace
}  // namespace weft::tools
