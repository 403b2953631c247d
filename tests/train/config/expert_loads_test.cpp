// The key expert-load: its words, the files that it names, and what loads make of the rows of the most loaded rank.
#include "train/config/expert_loads.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "train/config/resolved_run.h"

namespace weft::train {
namespace {

using testing::refuses;

/// A line about ten steps, without margins.
std::string line_of(const std::string& layers, const std::string& tokens, const std::string& margins, int steps = 10) {
  return "{\"step\":9,\"steps\":" + std::to_string(steps) + ",\"layers\":[" + layers + "],\"tokens\":[" + tokens +
         "],\"margin\":[" + margins + "]}\n";
}

/// Of two layers and four experts, of which a token takes one.
RunConfig config_of(const std::string& load, const std::string& grid = "z=2,expert=2") {
  RunConfig config;
  for (const auto& [key, value] : {std::pair<std::string, std::string>{"model", "moe-tiny"},
                                   {"model.layers", "2"},
                                   {"model.experts", "4"},
                                   {"model.experts-per-token", "1"},
                                   {"grid", grid},
                                   {"global-batch", "4"},
                                   {"expert-load", load}}) {
    set_key(config, key, value, "test");
  }
  return config;
}

cost::RowFactors factors_of(const RunConfig& config) {
  return row_factors(resolve(config, 0));
}

TEST(ExpertLoads, LinesOfAnotherModelAreRefused) {
  const testing::TemporaryFolder folder;
  const std::string lines = line_of("0,2", "[30,10],[20,20]", "1,1") + line_of("0", "[10,30]", "1");
  EXPECT_TRUE(refuses([&] { (void)read_expert_loads(folder.write("a.jsonl", lines)); },
                      {"line 2 has other layers or experts"}));
}

TEST(ExpertLoads, EqualSharesChangeNothing) {
  EXPECT_EQ(RunConfig().expert_load, "balanced");
  for (const auto& [load, grid] :
       {std::pair("balanced", "z=2,expert=2"), {"zipf:1", "z=2"}, {"zipf:0", "z=2,expert=2"}}) {
    const cost::RowFactors rows = factors_of(config_of(load, grid));
    EXPECT_DOUBLE_EQ(rows.usual, 1) << load;
    EXPECT_TRUE(rows.layers.empty()) << load;
  }
}

TEST(ExpertLoads, ZipfsAreThoseOfTheFirstExperts) {
  // Shares 12, 6, 4 and 3 of 25: the first two make 18, and the mean of two ranks is 12.5.
  EXPECT_DOUBLE_EQ(factors_of(config_of("zipf:1")).usual, 18 / 12.5);
  EXPECT_DOUBLE_EQ(factors_of(config_of("zipf:1", "z=4,expert=4")).usual, 12 / 6.25);
  EXPECT_TRUE(factors_of(config_of("zipf:1")).layers.empty());
}

// NCCL's exchanges have the size of any choice, whatever the loads. Others send rows that are there.
TEST(ExpertLoads, OnGpusWholeSegmentsAreSent) {
  for (const auto& [device, communicator, grid, whole] : {std::tuple("cuda", "auto", "z=2,expert=2", true),
                                                          {"cuda", "nccl", "z=2,expert=2", true},
                                                          {"cuda", "staged", "z=2,expert=2", false},
                                                          {"cuda", "local", "z=2,expert=2", false},
                                                          {"cuda", "auto", "z=2", false},
                                                          {"cpu", "auto", "z=2,expert=2", false}}) {
    RunConfig config = config_of("zipf:1", grid);
    set_key(config, "device", device, "test");
    set_key(config, "communicator", communicator, "test");
    EXPECT_EQ(factors_of(config).segments, whole) << device << " " << communicator << " " << grid;
    EXPECT_EQ(sends_row_segments(config), whole) << device << " " << communicator << " " << grid;
  }
}

TEST(ExpertLoads, AFilesAreMeansOverItsSteps) {
  const testing::TemporaryFolder folder;
  // Layer 0: 40 of 80 on each rank, then 60 of 80 for three times as many steps. Layer 1: all on one, then on the
  // other.
  const std::string lines =
      line_of("0,1", "[10,30,40,0],[8,8,0,0]", "1,1", 10) + line_of("0,1", "[30,30,20,0],[0,0,0,16]", "1,null", 30);
  const RunConfig config = config_of(folder.write("experts.jsonl", lines));
  ResolvedRun run = resolve(config, 0);
  cost::RowFactors rows = row_factors(run);
  ASSERT_EQ(rows.layers.size(), 2U);
  EXPECT_DOUBLE_EQ(rows.of(0), (10 * 1 + 30 * 1.5) / 40);
  EXPECT_DOUBLE_EQ(rows.of(1), 2);
  EXPECT_DOUBLE_EQ(rows.of(-1), (1.375 + 2) / 2);
  run.equal_layers = true;
  rows = row_factors(run);
  EXPECT_TRUE(rows.layers.empty());
  EXPECT_DOUBLE_EQ(rows.usual, (1.375 + 2) / 2);
}

TEST(ExpertLoads, WrongOnesAreRefused) {
  const testing::TemporaryFolder folder;
  const auto refused = [](const RunConfig& config, const std::vector<std::string>& parts) {
    return refuses([&] { (void)resolve(config, 0); }, parts);
  };
  for (const auto& [text, part] : {std::pair("zipf:", "the exponent of zipf"),
                                   {"zipf:x", "the exponent of zipf"},
                                   {"zipf:-1", "the exponent of zipf"},
                                   {"zipf:11", "the exponent of zipf"},
                                   {"", "is empty"}}) {
    RunConfig config;
    EXPECT_TRUE(refuses([&, text = text] { set_key(config, "expert-load", text, "test"); }, {part})) << text;
  }
  EXPECT_TRUE(refused(config_of("zipff:1"), {"zipff:1", "balanced, zipf:1, or experts.jsonl"}));
  EXPECT_TRUE(refused(config_of(folder.write("empty.jsonl", "")), {"has no line"}));
  EXPECT_TRUE(refused(config_of(folder.write("layers.jsonl", line_of("0", "[1,2,3,4]", "1"))),
                      {"has loads of 1 layers; expected the model's 2 layers with experts"}));
  EXPECT_TRUE(refused(config_of(folder.write("experts.jsonl", line_of("0,1", "[1,2],[3,4]", "1,1"))),
                      {"has loads of 2 experts; expected 4"}));
  EXPECT_TRUE(refused(config_of(folder.write("none.jsonl", line_of("0,1", "[1,2,3,4],[0,0,0,0]", "1,1"))),
                      {"has no token in layer 1 at step 9"}));
  RunConfig dense;
  set_key(dense, "expert-load", "zipf:1", "test");
  EXPECT_TRUE(refused(dense, {"expert-load = zipf:1 of a model without experts"}));
}

}  // namespace
}  // namespace weft::train
