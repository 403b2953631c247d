// Commands on a pipeline: what plans, traces, comparisons, pages and explanations have of all its stages.
#include "tests/tools/weft_folder.h"

namespace weft::tools {
namespace {

class PipelineCommands : public testing::WeftFolder {
 protected:
  static Words of_step(const std::string& command, const Words& more = {}) {
    const std::string config = std::string(WEFT_SOURCE_DIR) + "/examples/pipeline.toml";
    return testing::joined({command, config, "--machine", "laptop"}, more);
  }
  double step_seconds(const std::string& policy) const {
    return object_of(of_step("simulate", {"--policy", policy})).at("step_seconds");
  }
};

TEST_F(PipelineCommands, PlansAreReplayed) {
  for (const std::string policy : {"1f1b", "interleaved", "zb-v"}) {
    SCOPED_TRACE(policy);
    const auto told = object_of(of_step("plan", {"--policy", policy, "-o", "plan.json"}));
    EXPECT_EQ(told.at("classes"), 2);
    EXPECT_EQ(read_json("plan.json").at("classes").size(), 2U);
    EXPECT_EQ(step_seconds("file:plan.json"), step_seconds(policy));
    EXPECT_TRUE(object_of({"diff", "plan.json", "plan.json"}).at("same"));
  }
}

TEST_F(PipelineCommands, EachStageHasATrace) {
  const auto files = object_of(of_step("simulate", {"-o", "step.json", "--svg", "step.svg"})).at("files");
  EXPECT_EQ(files, (nlohmann::json{"step.json", "step.stage1.json", "step.svg"}));
  for (const std::string file : files) EXPECT_TRUE(exists(file)) << file;
  EXPECT_GT(output({"timeline", "step.stage1.json", "--text"}).size(), 0U);
  (void)output(of_step("simulate", {"-o", "plain"}));
  EXPECT_TRUE(exists("plain") && exists("plain.stage1"));
  expect_refusal(of_step("simulate", {"-o", "/dev/null"}), {"-o /dev/null", "several classes of ranks"});
}

TEST_F(PipelineCommands, ComparisonsGoToFilesAndPages) {
  const Words policies = {"--policies", "1f1b", "gpipe", "interleaved:chunks=8"};
  const auto told = object_of(of_step(
      "compare",
      testing::joined(policies, {"--noise", "0.1", "--pareto", "-o", "folder", "-o", "t.csv", "-o", "/dev/stderr"})));
  EXPECT_GT(told.at("policies").at(0).at("disturbed").at("p95_seconds"), 0);
  EXPECT_FALSE(told.at("policies").at(2).value("refused", "").empty()) << "more stages than layers";
  EXPECT_FALSE(told.at("pareto").empty());
  EXPECT_TRUE(has(read("t.csv"), "disturbed_p95_ms"));
  const auto views = [&](const Words& words) { return object_of(words).at("views"); };
  const nlohmann::json expected = {"1f1b, stage 0", "1f1b, stage 1", "gpipe, stage 0", "gpipe, stage 1"};
  EXPECT_EQ(views({"report", "folder", "-o", "a.html"}), expected);
  EXPECT_EQ(views(of_step("report", testing::joined(policies, {"-o", "b.html"}))), expected);
  expect_refusal(of_step("compare", {"-o", "t.txt"}), {"t.txt"});
  (void)output(of_step("compare", testing::joined(policies, {"-o", "steps.svg"})));
  EXPECT_TRUE(has(read("steps.svg"), "1f1b"));
}

// A run's page has each stage with its plan, and simulators get a trace of each rank.
TEST_F(PipelineCommands, ARunIsShownWithItsPlan) {
  const std::string config = std::string(WEFT_SOURCE_DIR) + "/examples/pipeline.toml";
  (void)output({"train", config, "--steps", "3", "--run-dir", "run", "--quiet"});
  const nlohmann::json stages = {"1f1b, stage 0", "1f1b, stage 1"};
  EXPECT_EQ(object_of({"report", "run", "-o", "run.html"}).at("views"), stages);
  const std::string html = read("run.html");
  for (const std::string stage : stages) {
    EXPECT_TRUE(has(html, stage + ": Why communication is exposed")) << stage;
  }
  EXPECT_TRUE(has_parts(html, {"least with these task times", "class=\"node"}));
  const auto told = object_of({"export", "run", "--format", "chakra", "-o", "et"});
  EXPECT_EQ(told.at("files").size(), 5U);
  EXPECT_EQ(told.at("ranks"), 4);
  for (const std::string file : told.at("files")) EXPECT_TRUE(exists(file)) << file;
  const auto imported = object_of(
      {"trace", "import", "et/step.0.et", "et/step.1.et", "et/step.2.et", "et/step.3.et", "-o", "step.graph.json"});
  EXPECT_EQ(imported.at("ranks").size(), 4U);
  // Traces of another run: the stages' steps don't fit together.
  folder_.write("run/trace.stage1.json", read("run/trace.json"));
  (void)output({"report", "run", "-o", "other.html"});
  EXPECT_TRUE(has(read("other.html"), "another plan now"));
}

TEST_F(PipelineCommands, AStageIsExplainedAndMended) {
  const double before = step_seconds("1f1b");
  const auto told = object_of(of_step("explain", {"--pipe-rank", "1", "--apply", "1", "-o", "better.json"}));
  EXPECT_GT(told.at("applied").at("gain_ms"), 0);
  EXPECT_LT(step_seconds("file:better.json"), before);
  const std::string text = output(of_step("explain", {"--pipe-rank", "0", "--all", "--most", "0"}));
  EXPECT_TRUE(has(text, "cause  other stages"));
  expect_refusal(of_step("explain", {"--pipe-rank", "2"}), {"--pipe-rank 2", "from 0 to 1"});
  expect_refusal(of_step("explain", {"--apply", "1"}), {"--apply", "--pipe-rank"});
}

}  // namespace
}  // namespace weft::tools
