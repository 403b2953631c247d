// The measurements of the cache of tuned products, and the choices that it keeps.
#include "runtime/execute/tuning/gemm_tuning_cache.h"

#include <gtest/gtest.h>

#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"

namespace weft::execute {
namespace {

GemmProblem product(std::int64_t m) {
  return {m, 64, 32, false, true, false, false, DType::f32, DType::f32, {32, 32, 64}};
}

// Measures nothing: every product gets a method that isn't the default.
class GemmTuningCacheTest : public ::testing::Test {
 protected:
  TunedGemms complete(std::span<const GemmProblem> products) {
    measured_.clear();
    lines_.clear();
    const auto measure = [&](const GemmProblem& problem) {
      measured_.push_back(problem.m);
      GemmTrial trial;
      trial.problem = problem;
      trial.usual = *parse_gemm_method("sgemm 64x64");
      trial.chosen = *parse_gemm_method("sgemm 64x32");
      return trial;
    };
    return cache_.complete(products, measure, [&](const Status& status) { lines_.push_back(status.text); });
  }

  testing::TemporaryFolder folder_;
  GemmTuningCache cache_{folder_.path("runs/gemm_tuning"), this_machine(), 2};
  std::vector<std::int64_t> measured_;
  std::vector<std::string> lines_;
};

using Sizes = std::vector<std::int64_t>;

TEST_F(GemmTuningCacheTest, MeasuresWhatTheFileLacks) {
  const std::vector<GemmProblem> first = {product(8), product(16)}, second = {product(16), product(24)};
  const TunedGemms of_first = complete(first);
  EXPECT_EQ(measured_, (Sizes{8, 16}));
  EXPECT_EQ(lines_.size(), 3U);
  EXPECT_NE(lines_.at(0).find("2 of the run's 2 matrix products"), std::string::npos) << lines_.at(0);
  EXPECT_NE(lines_.at(0).find(cache_.file().string()), std::string::npos) << lines_.at(0);

  complete(second);
  EXPECT_EQ(measured_, Sizes{24});
  const TunedGemms kept = parse_gemm_tuning(read_gemm_tuning_text(cache_.file()), "kept");
  EXPECT_EQ(kept.table.choices().size(), 3U);
  EXPECT_EQ(kept.machine, this_machine());
  EXPECT_EQ(kept.threads, 2);

  // Choices that another run added don't change the first run's.
  const TunedGemms again = complete(first);
  EXPECT_EQ(measured_, Sizes{});
  EXPECT_EQ(lines_.size(), 0U);
  EXPECT_EQ(again.table.choices().size(), 2U);
  EXPECT_EQ(again.table.fingerprint(), of_first.table.fingerprint());
}

TEST_F(GemmTuningCacheTest, ADamagedFileIsReplaced) {
  const std::vector<GemmProblem> products = {product(8)};
  complete(products);
  folder_.write("runs/gemm_tuning/" + cache_.file().filename().string(), "{\"format\": 1}");
  complete(products);
  EXPECT_EQ(measured_, Sizes{8});
  EXPECT_NE(lines_.at(0).find("tuned anew"), std::string::npos) << lines_.at(0);
  complete(products);
  EXPECT_EQ(measured_, Sizes{});
}

TEST_F(GemmTuningCacheTest, MachinesAndThreadsHaveFilesOfTheirOwn) {
  GemmTuningCache other = cache_;
  other.threads = 3;
  EXPECT_NE(other.file(), cache_.file());
  other = cache_;
  other.machine.isa += " amx";
  EXPECT_NE(other.file(), cache_.file());
  other.machine = {"NVIDIA H200", "cuBLASLt 13.1.0"};
  other.threads = 0;
  EXPECT_EQ(other.file().filename().string().rfind("NVIDIA-H200_cuBLASLt-13.1.0_", 0), 0U) << other.file();
}

TEST(TuningFolder, LiesBesideTheRun) {
  EXPECT_EQ(tuning_folder("runs/one"), "runs/gemm_tuning");
  EXPECT_EQ(tuning_folder("runs/one/"), "runs/gemm_tuning");
  EXPECT_EQ(tuning_folder("one"), "gemm_tuning");
}

TEST_F(GemmTuningCacheTest, AFolderThatCannotBeIsRefusedBeforeAnythingIsMeasured) {
  folder_.write("file", "");
  cache_.folder = folder_.path("file/gemm_tuning");
  const std::vector<GemmProblem> products = {product(8)};
  EXPECT_TRUE(refuses([&] { complete(products); }, {"--run-dir in another folder"}));
  EXPECT_EQ(measured_, Sizes{});
}

}  // namespace
}  // namespace weft::execute
