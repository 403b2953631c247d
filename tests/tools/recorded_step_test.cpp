// Recorded steps by the built `weft`: the verdict of an import, and what-ifs of its graph file that keep its promises.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/inspect/import/kineto_text.h"
#include "tests/tools/weft_folder.h"

namespace weft::tools {
namespace {

using nlohmann::json;
using testing::KinetoText;

/// Eight kernels and four collectives between them; rank 1 computes for longer, and the last kernel waits for all sums.
KinetoText rank_of_two(std::int64_t rank) {
  KinetoText text;
  text.info = fmt::format(R"("rank": {}, "world_size": 2, "pg_config": [{{"pg_name": "0", "pg_desc": "default_pg",
                          "pg_size": 2}}])",
                          rank);
  text.step(1, 77, 0, 4'000'000);
  const std::int64_t length = rank == 0 ? 300'000 : 400'000;
  std::int64_t summed = 0;
  for (std::int64_t i = 0; i < 8; ++i) {
    const std::int64_t called = 10'000 + i * 20'000, begin = 20'000 + i * length;
    text.call("cudaLaunchKernel", 77, called, 4'000, 10 * i).kernel("gemm", 7, begin, length, 10 * i);
    if (i % 2 == 0) continue;
    text.call("cudaEventRecord", 77, called + 5'000, 500, 10 * i + 1);
    text.call("cudaStreamWaitEvent", 77, called + 6'000, 500, 10 * i + 2);
    text.call("cudaLaunchKernelExC", 77, called + 8'000, 4'000, 10 * i + 3);
    // Both ranks end a sum when the slower one has come and 200 us have passed.
    const std::int64_t came = std::max(begin + length, summed), met = std::max(20'000 + (i + 1) * 400'000, summed);
    summed = met + 200'000 + 10'000 * i;
    text.kernel("ncclDevKernel_AllReduce", 40, came, summed - came, 10 * i + 3,
                fmt::format(R"(, "Process Group Name": "0", "Collective name": "allreduce", "Group size": 2,
                            "In msg nelems": {}, "Out msg nelems": {}, "dtype": "Float")",
                            500'000 + 25'000 * i, 500'000 + 25'000 * i));
  }
  text.call("cudaEventRecord", 77, 180'000, 500, 100).call("cudaStreamWaitEvent", 77, 181'000, 500, 101);
  text.call("cudaLaunchKernel", 77, 190'000, 4'000, 102).kernel("adam", 7, summed + 1'000, 100'000, 102);
  text.call("cudaDeviceSynchronize", 77, 200'000, summed + 105'000 - 200'000, 103);
  return text;
}

class RecordedStepCommand : public testing::WeftFolder {
 protected:
  RecordedStepCommand() {
    folder_.write("r0.json", rank_of_two(0).text());
    folder_.write("r1.json", rank_of_two(1).text());
    imported_ = object_of({"trace", "import", "r0.json", "r1.json", "-o", "s.graph.json"});
  }
  double step_ms(const Words& more) const {
    return 1e3 * object_of(testing::joined({"simulate", "s.graph.json"}, more)).at("step_seconds").get<double>();
  }
  json imported_;
};

TEST_F(RecordedStepCommand, TakesAsLongInASimulation) {
  const double replayed = imported_.at("verdict").at("replayed_ms").get<double>();
  EXPECT_NEAR(step_ms({}), replayed, 0.001 * replayed);
  EXPECT_NEAR(replayed, 4, 0.08);
  EXPECT_EQ(imported_.at("ranks").at(0).at("marked_ns"), 4'000'000);
}

TEST_F(RecordedStepCommand, GainsWhatTheVerdictPromises) {
  const json& verdict = imported_.at("verdict");
  const double replayed = verdict.at("replayed_ms").get<double>();
  EXPECT_EQ(verdict.at("bound_by"), "computing");
  EXPECT_NEAR(step_ms({"--no-host"}), verdict.at("without_host_ms").get<double>(), 0.001 * replayed);
  int simulated = 0;
  for (const json& remedy : verdict.at("remedies")) {
    const std::string flag = remedy.at("flag");
    Words words;
    if (flag == "--scale 'gemm=0.5'") words = {"--scale", "gemm=0.5"};
    if (flag == "--bandwidth 2") words = {"--bandwidth", "2"};
    if (words.empty()) continue;
    ++simulated;
    EXPECT_NEAR(replayed - step_ms(words), remedy.at("gain_ms").get<double>(), 0.001 * replayed) << flag;
  }
  EXPECT_EQ(simulated, 2);
}

TEST_F(RecordedStepCommand, IsAskedWhatIf) {
  const double whole = step_ms({});
  EXPECT_GT(step_ms({"--slow-rank", "2"}), whole + 1) << "rank 0 would take 600 us for each kernel";
  EXPECT_LT(step_ms({"--scale", "gemm=0"}), whole - 2);
  EXPECT_GT(step_ms({"--bandwidth", "0.5"}), whole + 0.2);
  EXPECT_NE(step_ms({"--bucket-mb", "4"}), whole);
  const Words moved = {"--recorded-on", "perlmutter", "--machine", "dgx-h100"};
  EXPECT_LT(step_ms(moved), whole);
  EXPECT_NEAR(step_ms(moved), step_ms(testing::joined(moved, {"--keep-order", "all"})), 1e-9) << "applied once";
  expect_refusal({"simulate", "s.graph.json", "--bucket-mb", "1"}, {"--bucket-mb 1", "MB"});
  expect_refusal({"simulate", "s.graph.json", "--recorded-on", "perlmutter"}, {"--recorded-on", "--machine"});
  expect_refusal({"simulate", "--model", "tiny", "--no-host"}, {"--no-host without a graph file"});
}

/// A slow rank computes for 8 times 600 or 800 us, and after the last sum, which takes 270 us, 200 us more; the
/// host goes on for another 409 us.
TEST_F(RecordedStepCommand, IsAskedWhatIfOneOfItsRanksWereSlow) {
  EXPECT_NEAR(step_ms({"--slow-rank", "0=2"}), 0.02 + 4.8 + 0.27 + 0.2 + 0.409, 0.02);
  EXPECT_NEAR(step_ms({"--slow-rank", "1=2"}), 0.02 + 6.4 + 0.27 + 0.2 + 0.409, 0.02);
  EXPECT_DOUBLE_EQ(step_ms({"--slow-rank", "2"}), step_ms({"--slow-rank", "0=2"}));
  EXPECT_NEAR(step_ms({"--slow-rank", "1=2", "--class", "1"}), 0.02 + 6.4 + 0.27 + 0.2 + 0.409, 0.02);
  expect_refusal({"simulate", "s.graph.json", "--slow-rank", "2=2"}, {"rank 2 isn't in the step", "0, 1"});
  expect_refusal({"simulate", "s.graph.json", "--slow-rank", "0=2", "--class", "1"}, {"rank 0 isn't in the step"});
}

TEST_F(RecordedStepCommand, HasItsBoundInAReport) {
  const double bound = object_of({"compare", "s.graph.json", "--policies", "recorded"}).at("bound_ms");
  EXPECT_NEAR(bound, 4, 0.1) << "its order was recorded";
  output({"report", "s.graph.json", "-o", "one.html"});
  EXPECT_NEAR(number_after(read("one.html"), "configured step takes less than "), bound, 0.01);
}

TEST_F(RecordedStepCommand, IsExplainedByItsReplay) {
  const std::string text = output({"explain", "s.graph.json"});
  EXPECT_TRUE(text.starts_with("verdict  bound by computing"));
  EXPECT_TRUE(has_parts(text, {"rank 0 waits", "for rank 1", "--scale 'gemm=0.5'"}));
  const json explained = object_of({"explain", "s.graph.json"});
  EXPECT_EQ(explained.at("verdict").at("bound_by"), "computing");
  const std::string told = output({"trace", "import", "r0.json", "r1.json"});
  std::istringstream lines(told);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 200U) << line;
  EXPECT_LT(told.find("bound by computing"), told.find("recorded ms"));
}

}  // namespace
}  // namespace weft::tools
