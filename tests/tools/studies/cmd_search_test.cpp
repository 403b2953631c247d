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

TEST_F(SearchCommand, TakesAFileWhoseGridIsOpen) {
  folder_.write("open.toml", "grid = \"auto\"\nmodel = \"tiny\"\nranks = 2\n");
  EXPECT_EQ(object_of({"search", "open.toml", "--top", "1", "-o", "best.toml"}).at("ranks"), 2);
  EXPECT_FALSE(has(read("best.toml"), "\ngrid = \"auto\""));
  for (const char* command : {"search", "train"}) {
    EXPECT_TRUE(has_parts(output({command, "open.toml", "--ranks", "6", "--dump-config"}), {"\ngrid = \"auto\"\n"}));
  }
  expect_refusal({"search", "open.toml", "--keep", "grid"}, {});
}

TEST_F(SearchCommand, RefusesWhatItCantSearch) {
  for (const Words& wrong : std::vector<Words>{{"--keep", "policy"},
                                               {"--why", "1"},
                                               {"--why", "1", "x"},
                                               {"--policies", "fastest"},
                                               {"--ranks", "7"},
                                               {"--memory", "1MiB"},
                                               {"--rewrites", "recompute:0-1"},
                                               {"--finalists", "0"}}) {
    expect_refusal(search(testing::joined(wrong, {"-o", "best.toml"})), {});
    EXPECT_FALSE(exists("best.toml")) << wrong[0];
  }
}

}  // namespace
}  // namespace weft::tools
