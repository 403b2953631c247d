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

TEST_F(SummationNotes, StandInTextsAndJson) {
  const std::string note = figures("simulate", words()).at("summation_note");
  EXPECT_TRUE(has(note, kNote)) << note;
  for (const auto& [command, more] : std::vector<std::pair<std::string, Words>>{{"train", {"--dry-run"}},
                                                                                {"simulate", {}},
                                                                                {"compare", {"--policies", "serial"}},
                                                                                {"explain", {}},
                                                                                {"memory", {"--grids", "z=2"}},
                                                                                {"plan", {"-o", "plan.json"}},
                                                                                {"timeline", {}},
                                                                                {"graph", {"-o", "graph.dot"}}}) {
    expect_marked(command, more);
    const nlohmann::json told = figures(command, words(more));
    const nlohmann::json& of_step = command == "memory"     ? told.at("grids").at(0)
                                    : command == "timeline" ? told.at("parts").at(0)
                                                            : told;
    EXPECT_EQ(of_step.at("summation_note"), note) << command;
  }
  EXPECT_TRUE(has(read("graph.dot"), kNote));
  testing::succeeded(weft("graph", {"--grid", "z=2", "--micro-batch", "1", "-o", "graph.dot"}));
  EXPECT_FALSE(has(read("graph.dot"), kNote));
  EXPECT_EQ(figures("memory", words({"--grids", "data=2"})).at("grids").at(0).at("summation_note"), "");
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
