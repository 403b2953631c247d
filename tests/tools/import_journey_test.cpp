// From somebody's trace to answers: a run's Kineto files are imported, explained, compared and reported.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "tests/tools/weft_folder.h"

namespace weft::tools {
namespace {

using nlohmann::json;

class ImportJourney : public testing::WeftFolder {
 protected:
  ImportJourney() {
    output({"simulate", "--model", "tiny", "--grid", "data=2", "--machine", "laptop", "--policy", "serial", "-o",
            "step.json"});
  }
};

TEST_F(ImportJourney, LeadsFromATraceToAReport) {
  output({"trace", "export", "step.json", "--format", "kineto", "-o", "kineto"});
  const json imported = object_of({"trace", "import", "kineto/rank_0.json", "-o", "step.graph.json.gz"});
  const json& rank = imported.at("ranks").at(0);
  const double recorded_ns = rank.at("recorded_ns");
  EXPECT_LE(std::abs(rank.at("error_percent").get<double>()), 5);
  const json simulated = object_of({"simulate", "step.graph.json.gz"});
  EXPECT_NEAR(1e9 * simulated.at("step_seconds").get<double>(), recorded_ns, 0.05 * recorded_ns);
  const json explained = object_of({"explain", "step.graph.json.gz"});
  EXPECT_GT(explained.at("exposed_ms").get<double>(), 0);
  EXPECT_GE(explained.at("explained_exposed_ms").get<double>(), 0.95 * explained.at("exposed_ms").get<double>());
  ASSERT_FALSE(explained.at("collectives").empty());
  for (const json& collective : explained.at("collectives")) EXPECT_NE(collective.at("cause"), "");
  EXPECT_TRUE(has_parts(output({"compare", "step.graph.json.gz", "--policies", "recorded", "serial", "critical-path"}),
                        {"recorded", "critical-path", "No order can take less"}));
  output({"report", "step.graph.json.gz", "-o", "report.html"});
  EXPECT_GT(std::filesystem::file_size(folder_.path("report.html")), 10'000U);
}

TEST_F(ImportJourney, OfAnExportWithNothingOfWeftFindsEveryWait) {
  output({"trace", "export", "step.json", "--format", "pytorch", "--sync-records", "-o", "pytorch"});
  const json imported = object_of({"trace", "import", "pytorch/rank_0.json", "-o", "step.graph.json"});
  EXPECT_LE(std::abs(imported.at("ranks").at(0).at("error_percent").get<double>()), 1);
  const auto step_ms = [&](const char* kept) {
    const json compared =
        object_of({"compare", "step.graph.json", "--keep-order", kept, "--policies", "recorded", "lhs"});
    return std::pair(compared.at("policies").at(0).at("step_ms").get<double>(),
                     compared.at("policies").at(1).at("step_ms").get<double>());
  };
  const auto kept = step_ms("all"), none = step_ms("none");
  EXPECT_NEAR(kept.second, kept.first, 0.01 * kept.first) << "no order but the recorded one";
  EXPECT_LE(none.second, kept.second);
  EXPECT_NEAR(none.first, kept.first, 1e-6 * kept.first);
  expect_refusal({"trace", "export", "step.json", "--format", "chrome", "--sync-records", "-o", "x.json"}, {});
}

}  // namespace
}  // namespace weft::tools
