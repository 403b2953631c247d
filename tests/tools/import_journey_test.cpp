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

TEST_F(ImportJourney, WithExecutionTracesPoliciesMoveWhatDataAllow) {
  const Words step = {"--model", "tiny", "--grid", "z=2", "--machine", "perlmutter"};
  output(testing::joined({"simulate", "--policy", "serial", "-o", "sharded.json"}, step));
  output({"trace", "export", "sharded.json", "--format", "pytorch", "--execution-traces", "-o", "pytorch"});
  const Words import = {"trace", "import", "pytorch/rank_0.json"};
  const Words data = {"--execution-trace", "pytorch/execution_0.json", "-o", "step.graph.json"};
  const json imported = object_of(testing::joined(import, data));
  EXPECT_GT(imported.at("ranks").at(0).at("edges").at("data").get<int>(), 100);
  const json compared = object_of({"compare", "step.graph.json", "--policies", "recorded", "lhs"});
  const double recorded = compared.at("policies").at(0).at("step_ms"),
               lhs = compared.at("policies").at(1).at("step_ms");
  const json own = object_of(testing::joined({"compare", "--policies", "serial", "lhs"}, step));
  const double own_serial = own.at("policies").at(0).at("step_ms"), own_lhs = own.at("policies").at(1).at("step_ms");
  EXPECT_NEAR(recorded, own_serial, 0.02 * own_serial);
  EXPECT_LT(lhs, 0.9 * recorded);
  EXPECT_NEAR(lhs, own_lhs, 0.1 * own_lhs);  // recorded times hold contention
  EXPECT_TRUE(has_parts(compared.at("summation_note").get<std::string>(),
                        {"recorded neighbours and waits", "the file tells their data"}));
  output(testing::joined(import, {"-o", "unknown.graph.json"}));
  const json unknown = object_of({"compare", "unknown.graph.json", "--policies", "lhs"});
  EXPECT_NEAR(unknown.at("policies").at(0).at("step_ms"), recorded, 0.01 * recorded) << "nothing tells its data";
  expect_refusal(testing::joined(import, {"pytorch/rank_0.json", "--execution-trace", "pytorch/execution_0.json"}),
                 {"1 execution traces of 2 traces"});
  expect_refusal({"trace", "export", "step.json", "--format", "chrome", "--execution-traces", "-o", "x.json"},
                 {"--execution-traces is for --format pytorch"});
}

}  // namespace
}  // namespace weft::tools
