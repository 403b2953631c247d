// The log that a run leaves in its folder: its content, at which level, of which ranks. For a failed run see
// tests/faults/not_a_number_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>
#include <vector>

#include "base/hash.h"
#include "runtime/execute/tuning/gemm_tuning_file.h"
#include "tests/tools/small_step.h"
#include "text/tokenizer.h"
#include "train/measure/run_gemm_tuning.h"

namespace weft::tools {
namespace {

struct Record {
  std::string level, rank, topic, text;
};

class RunLogFile : public testing::SmallStep {
 protected:
  /// Of a file in the folder; every line has to be a record.
  std::vector<Record> records(const std::string& file = "run/log.txt") const {
    static const std::regex form(R"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} (\w+) +(rank \d+|-) +(\w+) +(.*))");
    std::istringstream text(read(file));
    std::vector<Record> found;
    for (std::string line; std::getline(text, line);) {
      std::smatch match;
      EXPECT_TRUE(std::regex_match(line, match, form)) << line;
      if (!match.empty()) found.push_back({match[1], match[2], match[3], match[4]});
    }
    return found;
  }

  static std::int64_t count(const std::vector<Record>& records, const std::string& topic, const std::string& part) {
    return std::ranges::count_if(records, [&](const Record& r) { return r.topic == topic && has(r.text, part); });
  }

  static std::set<std::string> ranks(const std::vector<Record>& records) {
    std::set<std::string> found;
    for (const Record& record : records) found.insert(record.rank);
    return found;
  }

  testing::CommandResult train(std::vector<std::string> more) const {
    more.insert(more.end(), {"--run-dir", "run", "--quiet"});
    return weft("train", more);
  }
};

TEST_F(RunLogFile, TellsWhatOneWantsToKnowAfterwards) {
  const nlohmann::json planned = figures("train", {"--steps", "4", "--ranks", "2", "--dry-run"});
  const testing::CommandResult result =
      testing::succeeded(train({"--steps", "4", "--ranks", "2", "--save-every", "1", "--keep-last", "1"}));
  EXPECT_EQ(result.errors, "");
  const std::vector<Record> found = records();
  for (const auto& [topic, part] : std::vector<std::pair<std::string, std::string>>{
           {"run", "weft 0."},
           {"run", "oneDNN "},
           {"run", "oneTBB "},
           {"run", "global-batch = 4"},
           {"run", "data: "},
           {"run", "tokenizer: digest " + hex_fingerprint(text::ByteTokenizer().facts().digest)},
           {"comm", "communicator local, 2 ranks"},
           {"comm", "(ranks 0, 1)"},
           {"tuning", "default methods"},
           {"plan", "policy program"},
           {"plan", planned.at("plans").at("train").at("fingerprint").get<std::string>()},
           {"checkpoint", "step_00000001' removed"},
           {"evaluation", "before step 0"},
           {"evaluation", "after step 4"},
           {"run", "done after step 4 of 4"}}) {
    EXPECT_EQ(count(found, topic, part), 1) << topic << " " << part;
  }
  EXPECT_EQ(count(found, "checkpoint", "' written"), 4);
  EXPECT_EQ(count(found, "memory", "scratch arena"), 2);  // of each rank
  EXPECT_EQ(ranks(found), (std::set<std::string>{"-", "rank 0", "rank 1"}));
  // Nothing for a step or a task: four steps more add only the records of their evaluations and checkpoints.
  ASSERT_EQ(train({"--steps", "8", "--ranks", "2", "--eval-every", "100", "--overwrite"}).exit_code, 0);
  const std::size_t of_eight = records().size();
  ASSERT_EQ(train({"--steps", "40", "--ranks", "2", "--eval-every", "100", "--overwrite"}).exit_code, 0);
  EXPECT_EQ(records().size(), of_eight);
}

TEST_F(RunLogFile, HasTheLevelThatWasAskedForAndChangesNothingElse) {
  const auto last_loss = [&](const std::string& level) {
    return figures("train", {"--steps", "3", "--run-dir", "run", "--overwrite", "--log-level", level}).at("last_loss");
  };
  const nlohmann::json loss = last_loss("debug");
  EXPECT_GT(records().size(), 10U);
  EXPECT_EQ(last_loss("error"), loss);
  EXPECT_TRUE(exists("run/log.txt"));
  EXPECT_EQ(records().size(), 0U);
}

TEST_F(RunLogFile, TellsWhichProductsWereTunedAndWhatWasChosen) {
  // But for one product all are known already, as it takes seconds to measure one.
  train::RunConfig config;
  train::load_toml_text(config, weft("train", {"--steps", "1", "--dump-config"}).output, "dump");
  std::vector<execute::GemmProblem> known;
  for (const auto& product : train::products_of_run(train::resolve(config, 0))) known.push_back(product.problem);
  known.pop_back();
  const auto usual = [](const execute::GemmProblem& problem) {
    const execute::GemmMethod method = *execute::parse_gemm_method("sgemm 64x64");
    return execute::GemmTrial{.problem = problem, .usual = method, .chosen = method};
  };
  const execute::GemmTuningCache cache{folder_.path("gemm_tuning"), execute::this_machine(), 1};
  cache.complete(known, usual, [](const Status&) {});

  ASSERT_EQ(train({"--steps", "1", "--gemm-tuning", "auto"}).exit_code, 0);
  const std::vector<Record> measured = records();
  EXPECT_EQ(count(measured, "tuning", "matrix products, kept for later runs"), 1);
  EXPECT_EQ(count(measured, "tuning", "[1/"), 1);
  EXPECT_EQ(count(measured, "tuning", "by a table with fingerprint"), 1);
  ASSERT_EQ(train({"--steps", "1", "--gemm-tuning", "auto", "--overwrite"}).exit_code, 0);
  EXPECT_EQ(count(records(), "tuning", "[1/"), 0);
  EXPECT_EQ(count(records(), "tuning", "by a table with fingerprint"), 1);
}

TEST_F(RunLogFile, AnUnknownLevelIsRefused) {
  expect_refused("train", {"--run-dir", "run", "--log-level", "warn"},
                 {"\"warn\"", "error, warning, info, debug, trace", "--log-level warning"});
  EXPECT_FALSE(exists("run"));
}

TEST_F(RunLogFile, ARefusedRunLeavesNone) {
  EXPECT_EQ(train({"--steps", "2", "--val-data", "missing.txt"}).exit_code, 2);
  EXPECT_FALSE(exists("run"));
  ASSERT_EQ(train({"--steps", "2"}).exit_code, 0);
  const std::string before = read("run/log.txt");
  EXPECT_EQ(train({"--steps", "4", "--resume", "auto", "--val-data", "missing.txt"}).exit_code, 2);
  EXPECT_EQ(train({"--steps", "4", "--overwrite", "--val-data", "missing.txt"}).exit_code, 2);
  EXPECT_EQ(read("run/log.txt"), before);
}

TEST_F(RunLogFile, ARunThatGoesOnAddsToItAndAnotherBeginsAnew) {
  ASSERT_EQ(train({"--steps", "2"}).exit_code, 0);
  ASSERT_EQ(train({"--steps", "3", "--resume", "auto"}).exit_code, 0);
  EXPECT_EQ(count(records(), "run", "configuration: "), 2);
  EXPECT_EQ(count(records(), "checkpoint", "the run continues after 2 steps"), 1);
  folder_.write("run/log.rank1.txt", "of an older run\n");
  ASSERT_EQ(train({"--steps", "2", "--overwrite"}).exit_code, 0);
  EXPECT_EQ(count(records(), "run", "configuration: "), 1);
  EXPECT_FALSE(exists("run/log.rank1.txt"));
}

TEST_F(RunLogFile, EachProcessHasItsOwn) {
  ASSERT_EQ(train({"--steps", "1", "--dump-config"}).exit_code, 0);
  folder_.write("own.toml", weft("train", {"--steps", "2", "--dump-config"}).output);
  testing::succeeded(testing::run(testing::mpi_words(2, {"train", "own.toml", "--run-dir", "run", "--quiet"}),
                                  folder_.path().string()));
  EXPECT_EQ(ranks(records()), (std::set<std::string>{"-", "rank 0"}));
  EXPECT_EQ(count(records(), "comm", "communicator mpi, 2 ranks"), 1);
  EXPECT_EQ(count(records(), "run", "MPI "), 1);
  const std::vector<Record> other = records("run/log.rank1.txt");
  EXPECT_EQ(ranks(other), (std::set<std::string>{"-", "rank 1"}));
  EXPECT_EQ(count(other, "memory", "scratch arena"), 1);
}

}  // namespace
}  // namespace weft::tools
