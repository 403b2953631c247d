#include "train/run/run_files.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "inspect/drawing/render.h"
#include "ops/lower.h"
#include "runtime/execute/program/program.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/ops/tiny_model.h"
#include "tests/runtime/comm/ranks.h"
#include "tests/runtime/toy_graph.h"

namespace weft::train {
namespace {

ops::StepConfig step_of_two_ranks() {
  ops::StepConfig step = testing::tiny_step();
  step.grid.data = 2;
  return step;
}

void expect_silence(const std::string& line) {
  ADD_FAILURE() << line;
}

TEST(RunFiles, FolderHoldsTheConfigurationThatRunsTheSame) {
  const testing::TemporaryFolder folder;
  RunConfig config;
  config.steps = 17;
  config.lr = 0.125;
  make_run_dir(folder.path("a/b"), config);
  RunConfig loaded;
  load_toml(loaded, folder.path("a/b/config.toml").string());
  EXPECT_EQ(loaded.steps, 17);
  EXPECT_EQ(loaded.lr, 0.125);
}

TEST(RunFiles, AFolderThatCantBeMadeIsNamedWithTheFix) {
  const testing::TemporaryFolder folder;
  folder.write("file", "in the way");
  const std::string message =
      testing::message_of<UserError>([&] { make_run_dir(folder.path("file/run"), RunConfig{}); });
  EXPECT_TRUE(has_parts(message, {"file/run", "--run-dir"}));
}

TEST(RunFiles, GraphIsDrawn) {
  const testing::TemporaryFolder folder;
  testing::on_ranks(1, [&](comm::World& world) {
    const execute::Program program(
        world, {{"train", ops::lower_train(testing::tiny_model(ops::Family::gpt2), testing::tiny_step())}}, {});
    const auto files = write_graph_files(folder.path(), program.plan("train"), {}, expect_silence);
    EXPECT_EQ(files, std::vector<std::filesystem::path>{folder.path("graph.svg")});
  });
  EXPECT_TRUE(has_parts(testing::TemporaryFolder::read(folder.path("graph.svg")), {"<svg", "</svg>"}));
  EXPECT_TRUE(has_parts(testing::TemporaryFolder::read(folder.path("graph.dot")), {"digraph"}));
}

// More tasks outside of layers than Graphviz lays out in a reasonable time.
TEST(RunFiles, ADrawingThatIsTooLargeIsLeftOutAndSaidSo) {
  testing::ToyGraph toy;
  const graph::View x = toy.tensor("x", 8, graph::Role::parameter);
  std::vector<std::pair<std::string, std::string>> order;
  for (std::size_t i = 0; i <= inspect::kMaxRenderNodes; ++i) {
    order.emplace_back("task" + std::to_string(i), "compute0");
    toy.compute(order.back().first, {graph::read_write(x)});
  }
  const auto graph = toy.build();
  const plan::Plan plan = plan::make_plan(graph, testing::order_of(*graph, 1, order), "by-hand");
  const testing::TemporaryFolder folder;
  std::vector<std::string> lines;
  EXPECT_TRUE(
      write_graph_files(folder.path(), plan, {}, [&](const std::string& line) { lines.push_back(line); }).empty());
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_TRUE(has_parts(lines[0], {"graph.svg", " nodes", "at most 1000"}));
  EXPECT_FALSE(std::filesystem::exists(folder.path("graph.svg")));
  EXPECT_TRUE(has_parts(testing::TemporaryFolder::read(folder.path("graph.dot")), {"task1000"}));
}

TEST(RunFiles, OnlyARunsFilesAreRemoved) {
  const testing::TemporaryFolder folder;
  EXPECT_FALSE(holds_run(folder.path()));
  for (const std::string_view name : {kRunConfigFile, kMetricsFile, kLogFile, kGraphTextFile, kGraphFile, kTraceFile,
                                      kTimelineFile, std::string_view("gemm_tuning.json")}) {
    folder.write(name, "");
    EXPECT_TRUE(holds_run(folder.path())) << name;
    std::filesystem::remove(folder.path(name));
  }
  for (const char* name :
       {"config.toml", "metrics.jsonl", "log.txt", "log.rank1.txt", "log.rank12.txt", "trace.json", "metrics.csv",
        "tensorboard/events.out.tfevents.1.host.2.0", "checkpoints/step_00000002/manifest.json",
        "checkpoints/.writing_step_00000003/model.safetensors"}) {
    folder.write(name, "");
  }
  for (const char* name : {"report.html", "log.rank.txt", "log.rank1a.txt", "notes/metrics.jsonl",
                           "tensorboard/notes.txt", "checkpoints/best/model.safetensors"}) {
    folder.write(name, "mine");
  }
  remove_run_files(folder.path());
  EXPECT_FALSE(holds_run(folder.path()));
  std::set<std::string> left;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path())) {
    if (entry.is_regular_file()) left.insert(std::filesystem::relative(entry.path(), folder.path()).string());
  }
  EXPECT_EQ(left, (std::set<std::string>{"report.html", "log.rank.txt", "log.rank1a.txt", "notes/metrics.jsonl",
                                         "tensorboard/notes.txt", "checkpoints/best/model.safetensors"}));
}

TEST(RunFiles, TraceHoldsAllRanks) {
  const testing::TemporaryFolder folder;
  testing::on_ranks(2, [&](comm::World& world) {
    execute::Program program(
        world, {{"train", ops::lower_train(testing::tiny_model(ops::Family::llama), step_of_two_ranks())}},
        {.kept_steps = 2});
    for (std::int64_t step = 0; step < 3; ++step) program.run("train", step);
    const auto files = write_trace_files(folder.path(), world, program.plan("train"), step_of_two_ranks().grid,
                                         program.traces("train"), expect_silence);
    EXPECT_EQ(files.size(), world.rank() == 0 ? 2U : 0U);
  });
  const auto trace = nlohmann::json::parse(testing::TemporaryFolder::read(folder.path("trace.json")));
  std::set<std::int64_t> processes;
  std::int64_t gemms = 0;
  std::set<std::string> groups;
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    processes.insert(event.at("pid").get<std::int64_t>());
    if (event.contains("args") && event.at("args").contains("Process Group Ranks")) {
      groups.insert(event.at("args").at("Process Group Name").get<std::string>() + " " +
                    event.at("args").at("Process Group Ranks").get<std::string>());
    }
    gemms += event.at("name") == "mb1.L1.mlp.up.bwd.gemm_dw" ? 1 : 0;
  }
  EXPECT_EQ(processes.size(), 2U);
  EXPECT_EQ(groups, (std::set<std::string>{"data [0, 1]"}));
  EXPECT_EQ(gemms, 4);  // two steps of two ranks
  EXPECT_TRUE(has_parts(testing::TemporaryFolder::read(folder.path("timeline.svg")), {"<svg", "</svg>"}));
}

TEST(RunFiles, VersionsOfWhatComputes) {
  const auto versions = library_versions();
  for (const char* name : {"weft", "oneDNN", "oneTBB", "compiler", "kernels"}) {
    ASSERT_TRUE(versions.contains(name)) << name;
    EXPECT_NE(versions.at(name), "") << name;
  }
}

}  // namespace
}  // namespace weft::train
