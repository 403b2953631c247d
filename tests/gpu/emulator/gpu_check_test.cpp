// tools/gpu-check with tiny models on emulated GPUs: its actions, and the results that it keeps, skips and reports.
// Tests it without occupying a GPU.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/faults/child_process.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

class GpuCheck : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() /
              ("gpu-check-" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "bin");
    fs::create_directories(folder_ / "programs");
    for (const char* name : {"emulated_weft", "emulated_gpu_test", "emulated_bench_gpu"}) {
      fs::create_symlink(fs::path(WEFT_PROGRAMS) / name, folder_ / "programs" / name);
    }
  }
  void TearDown() override { fs::remove_all(folder_); }

  static void write_script(const fs::path& path, const std::string& body) {
    fs::remove(path);
    std::ofstream(path) << "#!/bin/sh\n" << body;
    fs::permissions(path, fs::perms::owner_all);
  }

  int run(const std::vector<std::string>& words) {
    std::vector<std::string> command = {"/usr/bin/env", "PATH=" + (folder_ / "bin").string() + ":/usr/bin:/bin",
                                        WEFT_SOURCE_DIR "/tools/gpu-check"};
    command.insert(command.end(), words.begin(), words.end());
    testing::ChildProcess child(command, {.folder = folder_});
    const testing::Ending ending = child.wait(std::chrono::seconds(400));
    EXPECT_TRUE(ending.in_time);
    printed_ = child.output() + child.errors();
    return ending.exit_code;
  }
  int dry_run(std::vector<std::string> words) {
    words.insert(words.begin(), {"--run", "--dry-run", "--programs", "programs", "--out", "out"});
    return run(words);
  }

  // By part.
  std::map<std::string, nlohmann::json> results() const {
    const nlohmann::json all = nlohmann::json::parse(std::ifstream(folder_ / "out" / "results.json"));
    std::map<std::string, nlohmann::json> found;
    for (const auto& part : all.at("parts")) found[part.at("name")] = part;
    return found;
  }
  static double figure(const nlohmann::json& part, const std::string& name, const std::string& unit,
                       const char* among = "figures") {
    for (const auto& each : part.at(among)) {
      if (each.at("name") == name && each.at("unit") == unit) return each.at("value");
    }
    ADD_FAILURE() << "no " << name << " in " << part;
    return 0;
  }

  // Forms of a kernel or a product, side by side.
  static void expect_pairs(const nlohmann::json& pairs) {
    EXPECT_GT(figure(pairs, "residual added to 64x64x256, by kernels over within", "times"), 0);
    EXPECT_GT(figure(pairs, "product 64x256x64 of fp32, fp32 over TF32", "times"), 0);
    for (const char* pair :
         {"weight and bias gradient 192x64x64, added, by kernels over within",
          "cross-entropy 4x4224, by blocks over by clusters", "12 additions of 16x64 in a graph, in order over early",
          "attention b1 t64 h1 d64 in documents of 16 backward, in fp32 over on tensor cores",
          "2 experts, 70 rows, 40x64 gradient, in fp32 over on tensor cores"}) {
      EXPECT_GT(figure(pairs, pair, "times"), 0) << pair;
    }
    EXPECT_GT(figure(pairs, "2 experts, 70 rows, 40x64 forward on tensor cores, of a dense product's rate", "%"), 0);
    EXPECT_EQ(figure(pairs, "attention b1 t64 h2 d64 forward, engines", "engines"), 2);
    EXPECT_EQ(figure(pairs, "attention b1 t64 h2 d64 backward, engines", "engines"), 3);
    EXPECT_GT(figure(pairs, "attention b1 t64 h2 d64 backward, first deterministic over fastest engine", "times"), 0);
    EXPECT_GT(figure(pairs, "gather in a group, supervised call, host", "us"), 0);
  }

  bool has_figure(const std::string& part, const std::string& name) const {
    const nlohmann::json figures = results().at(part).at("figures");
    for (const auto& each : figures) {
      if (each.at("name") == name) return true;
    }
    return false;
  }

  // A GPU whose power limit lowers its clocks.
  void make_card(const std::string& name, const std::string& id) const {
    write_script(folder_ / "bin" / "nvidia-smi", "card='" + name + ", 999.1, " + id + R"('
case "$*" in
*name,driver_version*) echo "$card" ;;
*--help-query-gpu*) echo clocks_event_reasons.active ;;
*-lms*) while :; do
  echo "1500, 2619, 700.5, 60, 99, 0x0000000000000004"
  echo "1700, 2619, 300.5, 64, 99, 0x0000000000000001"
  echo "210, 2619, 90.5, 30, 0, 0x0000000000000001"
  sleep 0.1
done ;;
esac
)");
  }
  void make_pytorch() const {
    write_script(folder_ / "bin" / "python3", R"(case "$*" in
*"import torch"*) ;;
*pytorch_product.py*) printf 'burst\t2\tTFLOP/s\nsustained\t1\tTFLOP/s\n' ;;
*"--batch 1 --accumulate 4"*) echo "a warning"; echo '{"step_ms": [20.0, 10.0, 40.0], "last_loss": 1.0}' ;;
*) echo "torch.Error: no such thing" >&2; exit 1 ;;
esac
)");
  }

  fs::path folder_;
  std::string printed_;
};

TEST_F(GpuCheck, DoesEveryPartOnceAndTellsWhatItFound) {
  make_card("Test GPU", "GPU-1");
  make_pytorch();
  ASSERT_EQ(dry_run({"--part", "doctor", "--part", "kernels"}), 0) << printed_;
  std::map<std::string, nlohmann::json> parts = results();
  EXPECT_EQ(parts.at("kernels").at("status"), "done");
  EXPECT_EQ(parts.at("train-124m").at("status"), "open");
  const auto kernels_done = fs::last_write_time(folder_ / "out" / "kernels" / "status");

  ASSERT_EQ(dry_run({}), 0) << printed_;
  EXPECT_EQ(fs::last_write_time(folder_ / "out" / "kernels" / "status"), kernels_done) << "done twice";
  parts = results();
  EXPECT_EQ(parts.size(), 16U);
  for (const auto& [name, part] : parts) {
    SCOPED_TRACE(name);
    const std::string status = part.at("status");
    const bool may_be_skipped = name == "sanitize" || name == "machine";
    EXPECT_TRUE(status == "done" || (status == "skipped" && may_be_skipped)) << part;
    EXPECT_EQ(part.at("reason").get<std::string>().empty(), status == "done") << part;
    EXPECT_EQ(part.at("card"), "Test GPU");
    EXPECT_EQ(part.at("driver"), "999.1");
    EXPECT_EQ(part.at("card_id"), "GPU-1");
    EXPECT_EQ(part.at("compares_with_results"), false);
    if (status != "done") continue;
    EXPECT_EQ(part.at("slowed_by"), "sw_power_cap");
    EXPECT_NEAR(figure(part, "SM clock", "MHz", "clocks"), 1600, 100);
    EXPECT_EQ(figure(part, "lowest SM clock", "MHz", "clocks"), 1500);
    EXPECT_EQ(figure(part, "highest power", "W", "clocks"), 700);
    EXPECT_EQ(figure(part, "temperature", "C", "clocks"), 64);
  }
  EXPECT_GT(figure(parts.at("test"), "tests passed", "tests"), 1);
  EXPECT_EQ(figure(parts.at("nccl"), "cases passed", "cases"), 19);
  EXPECT_GE(figure(parts.at("nccl"), "ALostRankEndsAReplay/2Ranks", "s"), 0);
  EXPECT_GT(figure(parts.at("products"), "Weft, sustained, last quarter", "TFLOP/s"), 0);
  EXPECT_NEAR(figure(parts.at("products"), "Weft, SM clock", "MHz"), 1600, 100);
  EXPECT_NEAR(figure(parts.at("products"), "burst over PyTorch's", "times"),
              figure(parts.at("products"), "Weft, burst", "TFLOP/s") / 2, 1e-4);
  expect_pairs(parts.at("pairs"));
  EXPECT_NEAR(figure(parts.at("keys-124m"), "plain step over that with --gpu-kernels=early-start", "times"),
              figure(parts.at("keys-124m"), "step", "ms") /
                  figure(parts.at("keys-124m"), "step with --gpu-kernels=early-start", "ms"),
              1e-4);
  EXPECT_GT(figure(parts.at("checkpoints"), "step after a checkpoint, copied beside it", "ms"), 0);
  EXPECT_GE(figure(parts.at("kernels"), "copy of 1 MiB", "GB/s"), 0);
  EXPECT_GE(figure(parts.at("kernels"), "layer norm backward, of the copy", "%"), 0);
  constexpr double kTokens = 4 * 32;
  for (const char* name : {"train-124m", "train-350m", "train-774m", "train-1558m"}) {
    SCOPED_TRACE(name);
    const nlohmann::json& part = parts.at(name);
    const double step = figure(part, "step", "ms"), rate = figure(part, "model rate", "TFLOP/s");
    EXPECT_GE(step, figure(part, "fastest step", "ms"));
    EXPECT_LE(step, figure(part, "slowest step", "ms"));
    EXPECT_NEAR(figure(part, "throughput", "tokens/s"), kTokens * 1000 / step, 1e-2 * kTokens * 1000 / step);
    EXPECT_NEAR(figure(part, "MFU", "%"), 100 * rate / 989, 1e-2 * rate);
    EXPECT_GT(figure(part, "products tuned", "ms"), 0);
    EXPECT_GT(figure(part, "attention tuned", "ms"), 0);
    double tasks = figure(part, "without a task", "ms");
    for (const auto& each : part.at("figures")) {
      if (each.at("name").get<std::string>().ends_with(" tasks")) tasks += each.at("value").get<double>();
    }
    EXPECT_GT(figure(part, "gemm tasks", "ms"), 0);
    EXPECT_NEAR(tasks, figure(part, "traced step", "ms"), 0.01 * tasks) << "one stream";
  }
  EXPECT_NEAR(figure(parts.at("cold-124m"), "step over train-124m's", "times"),
              figure(parts.at("cold-124m"), "step", "ms") / figure(parts.at("train-124m"), "step", "ms"), 1e-4);
  EXPECT_EQ(figure(parts.at("torch-774m"), "step", "ms"), 20);
  EXPECT_EQ(figure(parts.at("torch-774m"), "throughput", "tokens/s"), kTokens * 1000 / 20);
  EXPECT_NEAR(figure(parts.at("torch-774m"), "step over train-774m's", "times"),
              20 / figure(parts.at("train-774m"), "step", "ms"), 1e-4);

  const nlohmann::json all = nlohmann::json::parse(std::ifstream(folder_ / "out" / "results.json"));
  EXPECT_EQ(all.at("device"), "Test GPU");
  EXPECT_EQ(all.at("driver"), "999.1");
  EXPECT_EQ(all.at("kind"), "dry-run");
  EXPECT_TRUE(all.at("missing").empty());
  EXPECT_NE(all.at("version").get<std::string>().find("weft"), std::string::npos);
  EXPECT_EQ(run({"--run", "--out", "out", "--programs", "programs"}), 2) << "results of a GPU beside a dry run's";
}

TEST_F(GpuCheck, GoesOnInTheNextLease) {
  make_card("NVIDIA H200", "GPU-1");
  make_pytorch();
  ASSERT_EQ(dry_run({"--part", "doctor", "--part", "train-774m"}), 0) << printed_;
  EXPECT_EQ(results().at("train-774m").at("compares_with_results"), true);
  // What comes back of a lease is the archive. The next one has another card, of which no ratio is made.
  fs::remove_all(folder_ / "out");
  make_card("NVIDIA H100 80GB HBM3", "GPU-2");
  ASSERT_EQ(dry_run({"--part", "torch-774m"}), 0) << printed_;
  auto parts = results();
  EXPECT_EQ(parts.at("doctor").at("status"), "open") << "another machine";
  EXPECT_EQ(parts.at("train-774m").at("status"), "done");
  EXPECT_EQ(parts.at("train-774m").at("card"), "NVIDIA H200");
  EXPECT_EQ(parts.at("torch-774m").at("card"), "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(parts.at("torch-774m").at("compares_with_results"), false);
  EXPECT_FALSE(has_figure("torch-774m", "step over train-774m's"));
  const auto missing = nlohmann::json::parse(std::ifstream(folder_ / "out" / "results.json")).at("missing");
  EXPECT_EQ(missing.size(), 14U) << missing;
  make_card("NVIDIA H200", "GPU-1");
  ASSERT_EQ(dry_run({"--part", "torch-774m"}), 0) << printed_;
  EXPECT_TRUE(has_figure("torch-774m", "step over train-774m's")) << printed_;
}

TEST_F(GpuCheck, APartThatFailsIsToldAndTheRestGoesOn) {
  write_script(folder_ / "programs" / "emulated_gpu_test",
               "echo '[  PASSED  ] 3 tests.'; echo '[  FAILED  ] Cuda.\"Bad\" (1 ms)'; exit 1\n");
  EXPECT_EQ(dry_run({"--part", "test", "--part", "nccl", "--part", "sanitize"}), 1);
  const auto parts = results();
  EXPECT_EQ(parts.at("test").at("status"), "failed");
  EXPECT_EQ(parts.at("test").at("reason"), "exit code 1: gpu_test failed: Cuda.\"Bad\"");
  EXPECT_EQ(figure(parts.at("test"), "tests passed", "tests"), 3);
  EXPECT_EQ(parts.at("nccl").at("status"), "failed");
  EXPECT_NE(parts.at("sanitize").at("status"), "open");
  EXPECT_EQ(parts.at("test").at("slowed_by"), "unknown") << "there is no nvidia-smi";
  EXPECT_EQ(dry_run({"--part", "doctor"}), 1) << "a failure counts until its part is done again";
  EXPECT_EQ(run({"--table", "--out", "out"}), 0);
}

TEST_F(GpuCheck, APartEndsInTime) {
  write_script(folder_ / "programs" / "emulated_gpu_test", "echo $$ >" + (folder_ / "pid").string() + "; sleep 1000\n");
  EXPECT_EQ(dry_run({"--part", "test", "--minutes", "0.04"}), 1);
  EXPECT_EQ(results().at("test").at("status"), "failed");
  EXPECT_EQ(results().at("test").at("reason"), "ended after 2 s");
  std::string pid;
  std::ifstream(folder_ / "pid") >> pid;
  EXPECT_FALSE(fs::exists("/proc/" + pid)) << "it runs on";
  // No part begins for which the call has too little time.
  EXPECT_EQ(dry_run({"--part", "doctor", "--part", "test", "--minutes", "0.1"}), 0);
  EXPECT_EQ(results().at("doctor").at("status"), "done");
  EXPECT_EQ(results().at("test").at("status"), "open");
  // A part that is cut off by the end of the call has failed only if a whole call is too short for it.
  write_script(folder_ / "programs" / "emulated_weft",
               "case $1 in --version) echo weft;; *) sleep 1; echo device 0 slow GPU,;; esac\n");
  write_script(folder_ / "programs" / "emulated_bench_gpu", "sleep 1000\n");
  EXPECT_EQ(dry_run({"--part", "doctor", "--part", "kernels", "--minutes", "0.15"}), 0);
  EXPECT_EQ(results().at("doctor").at("card"), "slow GPU") << "there is no nvidia-smi";
  EXPECT_EQ(results().at("kernels").at("status"), "cut");
  EXPECT_EQ(dry_run({"--part", "kernels", "--minutes", "0.02"}), 1);
  EXPECT_EQ(results().at("kernels").at("status"), "failed");
}

TEST_F(GpuCheck, NothingRunsWithoutAGpu) {
  write_script(folder_ / "programs" / "emulated_weft", "echo no device\n");
  for (int call = 0; call < 2; ++call) EXPECT_EQ(dry_run({}), 2);
  EXPECT_FALSE(fs::exists(folder_ / "out" / "test"));
}

TEST_F(GpuCheck, RefusesWhatItDoesNotKnow) {
  const std::vector<std::vector<std::string>> wrong = {{},
                                                       {"--sing"},
                                                       {"--run", "--list"},
                                                       {"--run", "--out"},
                                                       {"--run", "--part", "nothing"},
                                                       {"--run", "--minutes", "0"},
                                                       {"--run", "--peak", "fast"},
                                                       {"--run", "--dry-run", "--programs", "bin"},
                                                       {"--table", "--out", "nowhere"}};
  for (const auto& words : wrong) EXPECT_EQ(run(words), 2) << ::testing::PrintToString(words);
  EXPECT_FALSE(fs::exists(folder_ / "gpu-results" / "results.json"));
  EXPECT_EQ(run({"--help"}), 0);
  EXPECT_EQ(run({"--list"}), 0);
}

}  // namespace
}  // namespace weft
