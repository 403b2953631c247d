// --json of the commands that write files or print tables: one object, with the numbers of the text.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>

#include "tests/tools/small_step.h"
#include "tools/command_line/commands.h"

namespace weft::tools {
namespace {

using nlohmann::json;

class JsonOutput : public testing::SmallStep {
 protected:
  void train(const std::string& run_dir, const std::string& policy) const {
    testing::succeeded(
        weft("train", {"--ranks", "2", "--steps", "2", "--run-dir", run_dir, "--policy", policy, "--quiet"}));
  }
  std::uintmax_t size_of(const std::string& name) const { return std::filesystem::file_size(folder_.path(name)); }

  /// The number before `word` in a text.
  static std::int64_t number_before(const std::string& text, const std::string& word) {
    std::smatch match;
    return std::regex_search(text, match, std::regex("([0-9]+) " + word)) ? std::stoll(match[1]) : -1;
  }
};

TEST_F(JsonOutput, OfAPlanAndOfADifference) {
  const std::vector<std::string> words = {"--ranks", "2", "--policy", "serial", "-o", "a.json"};
  const json plan = figures("plan", words);
  const std::string text = weft("plan", words).output;
  const json file = read_json("a.json");
  EXPECT_EQ(plan.at("file"), "a.json");
  EXPECT_EQ(plan.at("policy"), "serial");
  EXPECT_EQ(plan.at("tasks"), number_before(text, "tasks"));
  EXPECT_EQ(plan.at("streams"), number_before(text, "streams"));
  EXPECT_EQ(plan.at("collectives"), number_before(text, "collectives"));
  EXPECT_EQ(plan.at("scratch_bytes"), file.at("plan").at("scratch_bytes"));
  EXPECT_EQ(plan.at("plan_fingerprint"), file.at("plan").at("fingerprint"));

  const json other = figures("plan", {"--ranks", "2", "--policy", "lhs", "-o", "b.json"});
  EXPECT_NE(other.at("plan_fingerprint"), plan.at("plan_fingerprint"));
  EXPECT_EQ(other.at("graph_fingerprint"), plan.at("graph_fingerprint"));
  EXPECT_TRUE(object_of({"diff", "a.json", "a.json"}).at("same"));
  const json difference = object_of({"diff", "a.json", "b.json", "--most", "1"});
  EXPECT_FALSE(difference.at("same"));
  EXPECT_EQ(difference.at("policy_b"), "lhs");
  EXPECT_EQ(difference.at("scratch_bytes_b"), other.at("scratch_bytes"));
  EXPECT_FALSE(difference.at("other_place").empty());
  const std::string all = run({"diff", "a.json", "b.json", "--most", "0"}).output;
  for (const json& move : difference.at("other_place")) {
    EXPECT_TRUE(has(all, move.at("task").get<std::string>() + " now ")) << move;
  }
}

TEST_F(JsonOutput, OfPictures) {
  const json graph = figures("graph", {"--ranks", "2", "-o", "g.dot"});
  const std::string text = weft("graph", {"--ranks", "2", "-o", "g.dot"}).output;
  EXPECT_EQ(graph.at("file"), "g.dot");
  EXPECT_EQ(graph.at("format"), "dot");
  EXPECT_EQ(graph.at("file_bytes"), size_of("g.dot"));
  EXPECT_EQ(graph.at("tasks"), number_before(text, "tasks"));
  EXPECT_EQ(graph.at("collectives"), number_before(text, "collectives"));

  const json timeline = figures("timeline", {"--ranks", "2", "--compare", "serial", "program", "-o", "t.svg"});
  EXPECT_EQ(timeline.at("file"), "t.svg");
  ASSERT_EQ(timeline.at("parts").size(), 2U);
  const json serial = timeline.at("parts").at(0).at("ranks").at(0);
  EXPECT_EQ(timeline.at("parts").at(0).at("policy"), "serial");
  EXPECT_EQ(serial.at("exposed_ns"), serial.at("communication_ns"));
  EXPECT_GE(serial.at("step_ns").get<double>(), timeline.at("parts").at(0).at("bound_ns").get<double>() - 1);
  EXPECT_LE(serial.at("stream_busy_fraction").at("compute0"), 1.0);
  EXPECT_FALSE(figures("timeline", {"--ranks", "2"}).contains("file"));
  expect_refused("timeline", {"--ranks", "2", "--text", "--json"}, {"--json with --text"});

  const json simulated = figures("simulate", {"--ranks", "2", "-o", "trace.json", "--svg", "s.svg"});
  EXPECT_EQ(simulated.at("files"), (json{"trace.json", "s.svg"}));
  EXPECT_EQ(figures("simulate", {"--ranks", "2"}).at("files"), json::array());
}

TEST_F(JsonOutput, OfExports) {
  train("run", "serial");
  const json model = object_of({"export", "run", "-o", "hf"});
  EXPECT_EQ(model.at("format"), "hf");
  std::uintmax_t bytes = 0;
  for (const std::string file : model.at("files")) bytes += size_of(file);
  EXPECT_EQ(model.at("files_bytes"), bytes);
  EXPECT_GT(model.at("parameters"), 0);

  const json chakra = object_of({"export", "run", "--format", "chakra", "-o", "et"});
  EXPECT_EQ(chakra.at("ranks"), 2);
  EXPECT_EQ(chakra.at("files").size(), 3U);
  for (const std::string file : chakra.at("files")) EXPECT_GT(size_of(file), 0U);

  const json ranks = object_of({"trace", "export", "run", "--format", "kineto", "-o", "ranks"});
  EXPECT_EQ(ranks.at("files"), (json{"ranks/rank_0.json", "ranks/rank_1.json"}));
  EXPECT_EQ(ranks.at("ranks"), 2);
  const json packed = object_of({"trace", "export", "run", "--format", "chrome", "-o", "a.json.gz"});
  EXPECT_EQ(packed.at("files"), json{"a.json.gz"});
  EXPECT_GT(size_of("a.json.gz"), 0U);
}

// What completion and man print is for a shell and for man.
TEST(JsonFlag, IsThereWhereverSomethingIsPrinted) {
  const Command root = describe_weft("weft");
  for (const Command& command : root.subcommands) {
    if (command.name == "completion" || command.name == "man") continue;
    EXPECT_EQ(find_option(command, "--json") == nullptr, !command.subcommands.empty()) << command.name;
    for (const Command& sub : command.subcommands) EXPECT_NE(find_option(sub, "--json"), nullptr) << sub.name;
  }
}

}  // namespace
}  // namespace weft::tools
