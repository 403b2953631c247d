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

  fs::path folder_;
  std::string printed_;
};

TEST_F(GpuCheck, DoesEveryPartOnceAndTellsWhatItFound) {
  // A GPU whose power limit lowers its clocks.
  write_script(folder_ / "bin" / "nvidia-smi", R"(case "$*" in
*name,driver_version*) echo "Test GPU, 999.1" ;;
*--help-query-gpu*) echo clocks_event_reasons.active ;;
*-lms*) while :; do
  echo "1500, 2619, 700.5, 60, 99, 0x0000000000000004"
  echo "1700, 2619, 300.5, 64, 99, 0x0000000000000001"
  sleep 0.1
done ;;
esac
)");
  // A PyTorch that runs out of memory at two sequences.
  write_script(folder_ / "bin" / "python3", R"(case "$*" in
*"import torch"*) ;;
*"--batch 2 "*) echo "torch.OutOfMemoryError: CUDA out of memory." >&2; exit 1 ;;
*"--layers 1"*) echo "a warning"; echo '{"name": "PyTorch", "step_ms": [20.0, 10.0, 40.0], "last_loss": 1.0}' ;;
*) echo "torch.Error: no such thing" >&2; exit 1 ;;
esac
)");
  ASSERT_EQ(dry_run({"--part", "doctor", "--part", "kernels"}), 0) << printed_;
  std::map<std::string, nlohmann::json> parts = results();
  EXPECT_EQ(parts.at("kernels").at("status"), "done");
  EXPECT_EQ(parts.at("train-124m").at("status"), "open");
  const auto kernels_done = fs::last_write_time(folder_ / "out" / "kernels" / "status");

  ASSERT_EQ(dry_run({}), 1) << printed_;  // the larger PyTorch fails
  EXPECT_EQ(fs::last_write_time(folder_ / "out" / "kernels" / "status"), kernels_done) << "done twice";
  parts = results();
  EXPECT_EQ(parts.size(), 19U);
  for (const auto& [name, part] : parts) {
    SCOPED_TRACE(name);
    const std::string status = part.at("status");
    if (name == "torch-774m") {
      EXPECT_EQ(status, "failed");
      continue;
    }
    const bool may_be_skipped = name.starts_with("sanitize") || name == "machine";
    EXPECT_TRUE(status == "done" || (status == "skipped" && may_be_skipped)) << part;
    EXPECT_EQ(part.at("reason").get<std::string>().empty(), status == "done") << part;
    if (status != "done") continue;
    EXPECT_EQ(part.at("slowed_by"), "sw_power_cap");
    EXPECT_NEAR(figure(part, "SM clock", "MHz", "clocks"), 1600, 100);
    EXPECT_EQ(figure(part, "lowest SM clock", "MHz", "clocks"), 1500);
    EXPECT_EQ(figure(part, "highest power", "W", "clocks"), 700);
    EXPECT_EQ(figure(part, "temperature", "C", "clocks"), 64);
  }
  EXPECT_GT(figure(parts.at("test"), "tests passed", "tests"), 1);
  EXPECT_EQ(figure(parts.at("pipeline"), "same bits", "runs"), 9);
  EXPECT_GE(figure(parts.at("kernels"), "copy of 1 MiB", "GB/s"), 0);
  EXPECT_GE(figure(parts.at("kernels"), "layer norm backward, of the copy", "%"), 0);
  for (const char* name : {"train-124m", "train-124m-gelu", "train-774m", "train-774m-gelu", "train-1558m",
                           "train-1558m-gelu", "replay-124m", "streams-124m", "ahead-124m", "dropout-124m"}) {
    SCOPED_TRACE(name);
    const nlohmann::json& part = parts.at(name);
    const double step = figure(part, "step", "ms"), rate = figure(part, "model rate", "TFLOP/s");
    EXPECT_GE(step, figure(part, "fastest step", "ms"));
    EXPECT_LE(step, figure(part, "slowest step", "ms"));
    const double tokens = std::string(name).find("1558m") == std::string::npos ? 64 : 32;
    EXPECT_NEAR(figure(part, "throughput", "tokens/s"), tokens * 1000 / step, 1e-2 * tokens * 1000 / step);
    EXPECT_NEAR(figure(part, "MFU", "%"), 100 * rate / 989, 1e-2 * rate);
    EXPECT_TRUE(fs::exists(folder_ / "out" / name / "run" / "trace.json"));
  }
  EXPECT_EQ(figure(parts.at("torch-124m"), "sequences", "a step"), 1);
  EXPECT_EQ(figure(parts.at("torch-124m"), "step", "ms"), 20);
  EXPECT_EQ(figure(parts.at("torch-124m"), "throughput", "tokens/s"), 1600);
  EXPECT_NEAR(figure(parts.at("torch-124m"), "throughput over train-124m's", "times"),
              1600 / figure(parts.at("train-124m"), "throughput", "tokens/s"), 1e-2);
  EXPECT_GT(figure(parts.at("train-774m-gelu"), "products tuned", "ms"), 0);
  EXPECT_NEAR(figure(parts.at("replay-124m"), "step over train-124m's", "times"),
              figure(parts.at("replay-124m"), "step", "ms") / figure(parts.at("train-124m"), "step", "ms"), 1e-3);

  const nlohmann::json all = nlohmann::json::parse(std::ifstream(folder_ / "out" / "results.json"));
  EXPECT_EQ(all.at("device"), "Test GPU");
  EXPECT_EQ(all.at("driver"), "999.1");
  EXPECT_EQ(all.at("kind"), "dry-run");
  EXPECT_NE(all.at("version").get<std::string>().find("weft"), std::string::npos);
  EXPECT_EQ(run({"--run", "--out", "out", "--programs", "programs"}), 2) << "results of a GPU beside a dry run's";
}

TEST_F(GpuCheck, APartThatFailsIsToldAndTheRestGoesOn) {
  write_script(folder_ / "programs" / "emulated_gpu_test",
               "echo '[  PASSED  ] 3 tests.'; echo '[  FAILED  ] Cuda.\"Bad\" (1 ms)'; exit 1\n");
  EXPECT_EQ(dry_run({"--part", "test", "--part", "sanitize-memcheck"}), 1);
  const auto parts = results();
  EXPECT_EQ(parts.at("test").at("status"), "failed");
  EXPECT_EQ(parts.at("test").at("reason"), "exit code 1: gpu_test failed: Cuda.\"Bad\"");
  EXPECT_EQ(figure(parts.at("test"), "tests passed", "tests"), 3);
  EXPECT_NE(parts.at("sanitize-memcheck").at("status"), "open");
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
               "case $1 in --version) echo weft;; doctor) sleep 1; echo device 0 slow GPU,;; *) sleep 1000;; esac\n");
  fs::create_directories(folder_ / "out" / "train-124m");
  std::ofstream(folder_ / "out" / "train-124m" / "tuned.json") << "{}";
  EXPECT_EQ(dry_run({"--part", "doctor", "--part", "replay-124m", "--minutes", "0.15"}), 0);
  EXPECT_EQ(results().at("replay-124m").at("status"), "cut");
  EXPECT_EQ(dry_run({"--part", "replay-124m", "--minutes", "0.02"}), 1);
  EXPECT_EQ(results().at("replay-124m").at("status"), "failed");
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
