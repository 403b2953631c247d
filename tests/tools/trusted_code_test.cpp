// Code runs only because this command line names it: a configuration, a run's folder and a checkpoint that name a
// policy's library are read without loading it.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/tools/small_step.h"

namespace weft::tools {
namespace {

namespace fs = std::filesystem;

using Words = std::vector<std::string>;

class TrustedCode : public testing::SmallStep {
 protected:
  TrustedCode() {
    for (const char* name : {"mine.so", "other.so"}) {
      fs::copy_file(std::string(WEFT_POLICY_LIBRARIES) + "/leaves_trace.so", folder_.path(name));
    }
    folder_.write("own.toml",
                  "policy = \"./mine.so\"\ndata = \"text.txt\"\nthreads = 1\nglobal-batch = 4\nsteps = 2\n"
                  "[model]\nname = \"custom\"\nlayers = 2\nhidden = 32\nffn = 96\nheads = 4\ncontext = 16\n");
  }

  /// Whether the library was loaded since the last call.
  bool loaded(const std::string& library = "mine.so") const { return fs::remove(folder_.path(library + ".loaded")); }

  /// Exit code 2, and the flag that would load the library, which isn't loaded.
  void expect_unloaded_refusal(const Words& words) const {
    const testing::CommandResult result = run(words);
    EXPECT_EQ(result.exit_code, 2) << words.front() << "\n" << result.output << result.errors;
    EXPECT_TRUE(has(result.errors, "--policy ./mine.so")) << words.front() << "\n" << result.errors;
    EXPECT_FALSE(loaded()) << words.front();
  }
  void expect_unloaded_success(const Words& words) const {
    testing::succeeded(run(words));
    EXPECT_FALSE(loaded()) << words.front();
  }
  void expect_loaded_success(const Words& words) const {
    testing::succeeded(run(words));
    EXPECT_TRUE(loaded()) << words.front();
  }

  void train_with_library() const {
    expect_loaded_success({"train", "own.toml", "--policy", "./mine.so", "--run-dir", "run", "--quiet"});
  }
};

TEST_F(TrustedCode, AConfigurationFileLoadsNothing) {
  const std::vector<Words> needing = {{"train", "own.toml", "--run-dir", "run"},
                                      {"train", "own.toml", "--dry-run"},
                                      {"explain", "own.toml"},
                                      {"graph", "own.toml", "-o", "graph.dot"},
                                      {"simulate", "own.toml"},
                                      {"memory", "own.toml"},
                                      {"plan", "own.toml", "-o", "plan.json"},
                                      {"timeline", "own.toml"},
                                      {"report", "own.toml", "-o", "report.html"},
                                      {"export", "own.toml", "--format", "chakra", "-o", "chakra"}};
  for (const Words& words : needing) expect_unloaded_refusal(words);
  for (const char* made : {"run", "graph.dot", "plan.json", "report.html", "chakra"}) {
    EXPECT_FALSE(exists(made)) << made;
  }
}

TEST_F(TrustedCode, TheCommandLineLoadsWhatItNames) {
  for (const Words& words : std::vector<Words>{
           {"train", "own.toml", "--dry-run", "--policy", "./mine.so"},
           {"train", "own.toml", "--dry-run", "--set", "policy=./mine.so:x=1"},
           {"explain", "own.toml", "--policy", "./mine.so"},
           {"graph", "own.toml", "-o", "graph.dot", "--policy=./mine.so"},
           {"simulate", "own.toml", "--policy", "./mine.so"},
           {"memory", "own.toml", "--policy", "./mine.so"},
           {"plan", "own.toml", "-o", "plan.json", "--policy", "./mine.so"},
           {"timeline", "own.toml", "--policy", "./mine.so"},
           {"timeline", "own.toml", "--compare", "serial", "./mine.so"},
           {"compare", "own.toml", "--policies", "serial", "./mine.so"},
           {"compare", "own.toml", "--policies", "./mine.so", "--measure", "--measured-rounds", "1", "--quiet"},
           {"report", "own.toml", "-o", "report.html", "--policy", "./mine.so"},
           {"report", "own.toml", "-o", "report.html", "--policies", "./mine.so"},
           {"export", "own.toml", "--format", "chakra", "-o", "chakra", "--policy", "./mine.so"}}) {
    expect_loaded_success(words);
  }
}

TEST_F(TrustedCode, OneLibraryNamedDoesNotLetAnotherIn) {
  expect_unloaded_success({"compare", "own.toml", "--policies", "./other.so"});
  EXPECT_TRUE(loaded("other.so"));
  expect_unloaded_success({"train", "own.toml", "--dry-run", "--policy", "./other.so"});
  EXPECT_TRUE(loaded("other.so"));
  expect_unloaded_success({"compare", "own.toml", "--policies", "serial"});
  EXPECT_FALSE(loaded("other.so"));
}

TEST_F(TrustedCode, ARunOfALibraryIsReadWithoutIt) {
  train_with_library();
  for (const Words& words : std::vector<Words>{{"eval", "run"},
                                               {"generate", "run", "--max-tokens", "2"},
                                               {"report", "run", "-o", "report.html"},
                                               {"trace", "check", "run"},
                                               {"trace", "summary", "run"},
                                               {"timeline", "run"},
                                               {"export", "run", "-o", "weights"},
                                               {"profile", "run/config.toml", "--profile-steps", "1", "--rounds", "1"},
                                               {"compare", "run/config.toml", "--policies", "program"}}) {
    expect_unloaded_success(words);
  }
  expect_unloaded_refusal({"export", "run", "--format", "chakra", "-o", "chakra"});
  expect_unloaded_refusal({"train", "run/config.toml", "--resume", "auto", "--steps", "4"});
  expect_loaded_success({"report", "run", "-o", "report.html", "--policy", "./mine.so"});
  expect_loaded_success({"trace", "check", "run", "--policy", "./mine.so"});
  expect_loaded_success(
      {"train", "run/config.toml", "--resume", "auto", "--steps", "4", "--quiet", "--policy", "./mine.so"});
}

TEST_F(TrustedCode, WhatALibraryWouldAddIsSaidToBeMissing) {
  train_with_library();
  const testing::CommandResult checked = run({"trace", "check", "run"});
  EXPECT_TRUE(has(checked.output, "--policy ./mine.so")) << checked.output;
  const testing::CommandResult told = run({"trace", "check", "run", "--policy", "./mine.so"});
  EXPECT_TRUE(has(told.output, "compiles to the same plan")) << told.output;
  ASSERT_EQ(run({"report", "run", "-o", "without.html"}).exit_code, 0);
  EXPECT_TRUE(has(read("without.html"), "--policy ./mine.so"));
  EXPECT_EQ(run({"export", "run", "-o", "weights", "--policy", "./mine.so"}).exit_code, 2);
}

TEST_F(TrustedCode, RanksOfALauncherLoadNothingEither) {
  const testing::CommandResult result =
      testing::run(testing::mpi_words(2, {"train", "own.toml", "--dry-run"}), folder_.path().string());
  EXPECT_EQ(result.exit_code, 2) << result.errors;
  EXPECT_FALSE(loaded());
  testing::succeeded(testing::run(testing::mpi_words(2, {"train", "own.toml", "--dry-run", "--policy", "./mine.so"}),
                                  folder_.path().string()));
  EXPECT_TRUE(loaded());
}

}  // namespace
}  // namespace weft::tools
