// A configuration that adds gradients in another order than by default is marked wherever a plan or a run of it is
// described, and no other is.
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "tests/tools/small_step.h"

namespace weft::tools {
namespace {

constexpr const char* kNote = "added in another order than by default";

class SummationNotes : public testing::SmallStep {
 protected:
  /// Two micro-batches of each of two ranks along z.
  static std::vector<std::string> words(std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--grid", "z=2", "--micro-batch", "1", "--gradient-reduction", "micro-batch"});
    return more;
  }
  /// Words with blanks and line breaks as one blank each: texts are as wide as their terminal.
  static std::string in_one_line(const std::string& text) {
    std::istringstream in(text);
    std::string line;
    for (std::string word; in >> word;) line += (line.empty() ? "" : " ") + word;
    return line;
  }
  void expect_marked(const std::string& command, const std::vector<std::string>& more) const {
    SCOPED_TRACE(command);
    const testing::CommandResult marked = testing::succeeded(weft(command, words(more)));
    EXPECT_TRUE(has(in_one_line(marked.output), kNote)) << marked.output;
    std::vector<std::string> plain = words(more);
    plain.back() = "step";
    const testing::CommandResult other = testing::succeeded(weft(command, plain));
    EXPECT_FALSE(has(in_one_line(other.output), "another order")) << other.output;
  }
};

TEST_F(SummationNotes, StandInTexts) {
  expect_marked("train", {"--dry-run"});
  expect_marked("simulate", {});
  expect_marked("compare", {"--policies", "program", "serial"});
  expect_marked("explain", {});
  expect_marked("memory", {"--grids", "z=2"});
  expect_marked("plan", {"-o", "plan.json"});
  expect_marked("graph", {"-o", "graph.dot"});
  EXPECT_FALSE(has(read("graph.dot"), kNote));  // of the plain step
  weft("graph", words({"-o", "graph.dot"}));
  EXPECT_TRUE(has(read("graph.dot"), kNote));
  expect_marked("timeline", {});
}

TEST_F(SummationNotes, StandInJson) {
  const std::string note = figures("simulate", words()).at("summation_note");
  EXPECT_TRUE(has(note, kNote)) << note;
  EXPECT_EQ(figures("train", words({"--dry-run"})).at("summation_note"), note);
  EXPECT_EQ(figures("compare", words({"--policies", "program"})).at("summation_note"), note);
  EXPECT_EQ(figures("explain", words()).at("summation_note"), note);
  EXPECT_EQ(figures("plan", words({"-o", "plan.json"})).at("summation_note"), note);
  EXPECT_EQ(figures("graph", words({"-o", "graph.dot"})).at("summation_note"), note);
  EXPECT_EQ(figures("timeline", words()).at("parts").at(0).at("summation_note"), note);
  const nlohmann::json grids = figures("memory", words({"--grids", "z=2", "data=2"})).at("grids");
  EXPECT_EQ(grids.at(0).at("summation_note"), note);
  EXPECT_EQ(grids.at(1).at("summation_note"), "");
  EXPECT_EQ(figures("simulate", {"--grid", "z=2", "--micro-batch", "1"}).at("summation_note"), "");
}

TEST_F(SummationNotes, StayWithARunAndAComparison) {
  const std::string note = figures("train", words({"--steps", "2", "--run-dir", "run"})).at("summation_note");
  EXPECT_TRUE(has(note, kNote)) << note;
  const std::string kept = read("run/config.toml");
  EXPECT_TRUE(has(kept, "gradient-reduction = \"micro-batch\"")) << kept;
  const std::string folder = folder_.path().string();
  EXPECT_EQ(weft("compare", words({"--policies", "program", "-o", "policies"})).exit_code, 0);
  for (const std::string source : {"run", "policies"}) {
    const testing::CommandResult report = testing::run_weft({"report", source, "-o", source + ".html"}, folder);
    EXPECT_EQ(report.exit_code, 0) << report.errors;
    EXPECT_TRUE(has(read(source + ".html"), kNote)) << source;
  }
  // A run that goes on keeps the key.
  const testing::CommandResult on =
      testing::succeeded(testing::run_weft({"train", "--resume", "run", "--steps", "3", "--json"}, folder));
  EXPECT_EQ(nlohmann::json::parse(on.output).at("summation_note"), note);
}

}  // namespace
}  // namespace weft::tools
