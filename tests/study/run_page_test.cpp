// Names of runs beside each other, and the text about a run's metrics.
#include "study/run_page.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/base/temporary_folder.h"

namespace weft::study {
namespace {

using Names = std::vector<std::string>;

TEST(RunNames, AreShortWhereTheyDiffer) {
  EXPECT_EQ(run_names({"runs/a", "runs/b/"}), (Names{"a", "b"}));
  EXPECT_EQ(run_names({"x/run", "./y/run", "y/other"}), (Names{"x/run", "y/run", "other"}));
  EXPECT_THROW(run_names({"runs/a", "runs//a/"}), UserError);
  Names many;
  for (std::size_t i = 0; i < kMostRuns; ++i) many.push_back("run" + std::to_string(i));
  EXPECT_EQ(run_names(many), many);
  many.emplace_back("one more");
  EXPECT_THROW(run_names(many), UserError);
}

TEST(RunMetrics, AreReadByStep) {
  const testing::TemporaryFolder folder;
  const std::string file = folder.write("metrics.jsonl",
                                        "{\"step\":0,\"loss\":4.5,\"step_ms\":30,\"tokens_per_s\":100}\n"
                                        "{\"step\":1,\"loss\":null,\"step_ms\":10,\"tokens_per_s\":300}\n"
                                        "{\"step\":2,\"loss\":4.0,\"val_loss\":4.25,\"step_ms\":20}\n"
                                        "{\"step\":3,\"lo");
  const RunMetrics metrics = read_metrics(file);
  EXPECT_EQ(metrics.steps, 3U);
  EXPECT_EQ(metrics.step_ms.median(), 20);
  ASSERT_EQ(metrics.of("loss").points.size(), 2U);  // null: it wasn't finite
  EXPECT_EQ(metrics.of("loss").points[1].step, 2);
  EXPECT_EQ(metrics.of("tokens_per_s").median(), 300);
  EXPECT_EQ(metrics.of("exposed_comm_ms").median(), 0);
  ASSERT_EQ(metrics.held_out.size(), 1U);
  EXPECT_EQ(metrics.held_out[0].value, 4.25);
  EXPECT_THROW((void)metrics.of("loose"), std::logic_error);
  EXPECT_THROW(read_metrics(folder.write("other.jsonl", "{\"step\":0}\n")), UserError);
}

}  // namespace
}  // namespace weft::study
