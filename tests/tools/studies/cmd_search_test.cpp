// `weft search` as a process: its file simulates to the step that it tells, and wrong flags are refused.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/tools/weft_folder.h"

namespace weft::tools {
namespace {

using nlohmann::json;

class SearchCommand : public testing::WeftFolder {
 protected:
  /// Of a small model on two nodes.
  static Words search(const Words& more) {
    return testing::joined({"search", "--model", "small", "--machine", "perlmutter", "--ranks", "8", "--global-batch",
                            "8", "--dtype", "bf16", "--finalists", "3"},
                           more);
  }
};

TEST_F(SearchCommand, WritesAFileThatSimulatesToItsStep) {
  const json all = object_of(search({"-o", "best.toml", "--svg", "front.svg", "--top", "4"})).at("configurations");
  ASSERT_EQ(all.size(), 4U);
  const json& best = all.at(0);
  for (const json& each : all) {
    EXPECT_TRUE(each.at("estimated") || best.at("step_ms") <= each.at("step_ms"));
    EXPECT_TRUE(each.at("fits"));
  }
  const json step = object_of({"simulate", "best.toml"});
  EXPECT_EQ(step.at("step_seconds").get<double>(), best.at("step_seconds").get<double>());  // to the last digit
  for (const char* key : {"memory_bytes", "policy", "grid"}) EXPECT_EQ(step.at(key), best.at(key)) << key;
  EXPECT_TRUE(exists("front.svg"));
  output({"train", "best.toml", "--dry-run"});  // the file trains
}

TEST_F(SearchCommand, TellsWhyAndKeepsKeys) {
  const std::string found =
      output(search({"--keep", "micro-batch", "recompute", "--micro-batch", "1", "--why", "1", "2", "--quiet"}));
  EXPECT_TRUE(has_parts(found, {"computing alone"}));
  EXPECT_FALSE(has(found, "recompute")) << found;
}

TEST_F(SearchCommand, TriesSequenceParallelOnRequest) {
  const auto with_it = [&](const Words& more) {
    const Words one_grid = {"--keep", "grid", "recompute", "--grid", "y=2,data=4", "--top", "20"};
    const json all = object_of(search(testing::joined(one_grid, more))).at("configurations");
    std::size_t found = 0;
    for (const json& each : all) {
      if (each.at("sequence_parallel").get<bool>()) ++found;
    }
    return found;
  };
  EXPECT_EQ(with_it({}), 0U);
  const std::size_t tried = with_it({"--try", "sequence-parallel"}), always = with_it({"--sequence-parallel", "true"});
  EXPECT_GT(tried, 0U);
  EXPECT_GE(always, tried);
}

TEST_F(SearchCommand, TakesAFileWhoseGridIsOpen) {
  folder_.write("open.toml", "grid = \"auto\"\nmodel = \"tiny\"\nranks = 2\n");
  EXPECT_EQ(object_of({"search", "open.toml", "--top", "1", "-o", "best.toml"}).at("ranks"), 2);
  EXPECT_FALSE(has(read("best.toml"), "\ngrid = \"auto\""));
  for (const char* command : {"search", "train"}) {
    EXPECT_TRUE(has_parts(output({command, "open.toml", "--ranks", "6", "--dump-config"}), {"\ngrid = \"auto\"\n"}));
  }
  expect_refusal({"search", "open.toml", "--keep", "grid"}, {});
}

TEST_F(SearchCommand, PutsAGridBesideTheOthersAndEndsInTime) {
  const json found = object_of(search({"--include", "data=8", "--top", "1", "--max-time", "0"}));
  EXPECT_EQ(found.at("included").at("grid"), "x=1,y=1,z=1,data=8");
  const auto number = found.at("included").at("number").get<std::size_t>();
  ASSERT_GE(number, 1U);
  EXPECT_FALSE(found.at("configurations").back().at("estimated"));
  EXPECT_EQ(found.at("not_examined"), 0);
  const json hasty = object_of(search({"--max-time", "1e-9"}));
  EXPECT_GT(hasty.at("not_examined").get<int>(), 0);
  EXPECT_FALSE(hasty.at("configurations").at(0).at("estimated"));
  expect_refusal(search({"--include", "data=4"}), {"data=4"});
  expect_refusal(search({"--include", "auto"}), {"auto"});
}

TEST_F(SearchCommand, RefusesWhatItCantSearch) {
  for (const Words& wrong : std::vector<Words>{{"--keep", "policy"},
                                               {"--why", "1"},
                                               {"--why", "1", "x"},
                                               {"--policies", "fastest"},
                                               {"--ranks", "7"},
                                               {"--memory", "1MiB"},
                                               {"--rewrites", "recompute:0-1"},
                                               {"--try", "zero-1"},
                                               {"--model", "moe-tiny", "--expert-load", "zipf:1"},
                                               {"--try", "sequence-parallel", "--sequence-parallel", "false"},
                                               {"--finalists", "0"}}) {
    expect_refusal(search(testing::joined(wrong, {"-o", "best.toml"})), {});
    EXPECT_FALSE(exists("best.toml")) << wrong[0];
  }
}

}  // namespace
}  // namespace weft::tools
