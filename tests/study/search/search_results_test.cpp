// The words about a setup: its prediction, the next best grid with the parts where it loses, and the keys.
#include "study/search/search_results.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/base/messages.h"

namespace weft::study {
namespace {

/// A report of a step with two channels.
std::shared_ptr<const simulate::Report> report_of(double computing, double y_exposed, double z_exposed) {
  auto report = std::make_shared<simulate::Report>();
  simulate::ClassReport& own = report->classes.emplace_back();
  own.alone.compute_ns = computing;
  own.channels = {{"y", 2 * y_exposed, y_exposed}, {"z_gather", 3 * z_exposed, z_exposed}};
  own.times.exposed = y_exposed + z_exposed;
  report->simulation.ranks.emplace_back();
  report->simulation.step_ns = computing + y_exposed + z_exposed;
  return report;
}

Configuration finalist(const graph::Grid& grid, double computing, double y_exposed, double z_exposed) {
  Configuration configuration;
  configuration.setup.grid = grid;
  configuration.setup.micro_batch = 2;
  configuration.report = report_of(computing, y_exposed, z_exposed);
  configuration.exact = true;
  configuration.step_ns = configuration.report->step_ns();
  configuration.memory_bytes = 3 << 20;
  return configuration;
}

SearchResult result_of(std::vector<Configuration> configurations) {
  SearchResult result;
  result.machine.name = "loom";
  result.config.machine = "loom.toml";
  result.choices = 12;
  result.configurations = std::move(configurations);
  return result;
}

std::string text_of(const SearchResult& result, const std::set<std::string, std::less<>>& kept = {}) {
  return setup_text(result, kept, std::nullopt).plain();
}

TEST(ChoiceText, TellsThePredictionAndWhereTheNextGridLoses) {
  graph::Grid turned{.y = 4};
  std::swap(turned.order[0], turned.order[1]);  // the same grid in another order: no runner-up
  const SearchResult result =
      result_of({finalist({.y = 4}, 8e6, 1e6, 0), finalist(turned, 8e6, 1.5e6, 0),
                 finalist({.y = 2, .z = 2}, 8e6, 0.4e6, 2.6e6), finalist({.z = 4}, 9e6, 0, 4e6)});
  const std::string text = text_of(result);
  EXPECT_TRUE(testing::has_parts(
      text, {"grid       x=1,y=4,z=1,data=1, micro-batch 2: 9.00 ms a step and 3.00 MiB a rank by policy program, "
             "predicted for loom\n",
             "next best x=1,y=2,z=2,data=1, micro-batch 2: +2.00 ms (22.2 %), 3.00 MiB a rank; communication exposed "
             "+2.00 ms (z_gather +2.60 ms)\n",
             "the best of 12 choices of grid, axis-order, micro-batch, recompute, reshard-after-forward, zero-1\n"}));
}

TEST(ChoiceText, TellsWhatWasSetBefore) {
  EXPECT_TRUE(testing::has_parts(text_of(result_of({finalist({.y = 4}, 8e6, 0, 0)}), {"zero-1", "micro-batch"}),
                                 {"choices of grid, axis-order, recompute, reshard-after-forward; set: micro-batch, "
                                  "zero-1\n"}));
}

TEST(ChoiceText, ComparesOneGridWithItselfWhereThereIsNoOther) {
  Configuration other = finalist({.y = 4}, 8.5e6, 0, 0);
  other.setup.micro_batch = 1;
  const std::string text = text_of(result_of({finalist({.y = 4}, 8e6, 0, 0), other}));
  EXPECT_TRUE(testing::has_parts(
      text, {"next best x=1,y=4,z=1,data=1, micro-batch 1: +500.0 us (6.2 %)", "; computing alone +500.0 us\n"}));
  EXPECT_FALSE(testing::contains(text_of(result_of({finalist({.y = 4}, 8e6, 0, 0)})), "next best"));
}

TEST(ChoiceText, SaysWhatIsEstimatedAndWhichMachineIsAssumed) {
  Configuration estimate;
  estimate.setup.grid = {.data = 4};
  estimate.step_ns = 9e6;
  estimate.memory_bytes = 1 << 20;
  SearchResult result = result_of({finalist({.y = 4}, 8e6, 0, 0), estimate});
  result.config.machine = "";
  result.machine.name = "laptop";
  const std::string text = text_of(result);
  EXPECT_TRUE(testing::has_parts(text, {"predicted for a laptop, as no machine is named\n",
                                        "data=4, micro-batch 1: estimated, 9.00 ms and 1.00 MiB a rank\n"}));
  EXPECT_TRUE(testing::has_parts(text_of(result_of({estimate})), {": ~9.00 ms a step and ~1.00 MiB a rank"}));
}

}  // namespace
}  // namespace weft::study
