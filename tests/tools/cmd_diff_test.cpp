// `weft diff` as a process: it names the moved tasks of two plans, and nothing where none moved.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "tests/base/messages.h"
#include "tests/tools/small_step.h"

namespace weft::tools {
namespace {

using nlohmann::json;

class DiffCommand : public testing::SmallStep {
 protected:
  void plan(const std::string& policy, const std::string& output, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"--grid", "x=2", "--micro-batch", "1", "--policy", policy, "-o", output};
    words.insert(words.end(), more.begin(), more.end());
    const testing::CommandResult result = weft("plan", words);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
  }
  testing::CommandResult diff(const std::vector<std::string>& more) const {
    return testing::run_weft(testing::joined({"diff"}, more), folder_.path().string());
  }
};

TEST_F(DiffCommand, EqualPlansAreTheSame) {
  plan("axonn", "a.json");
  plan("axonn", "b.json");
  const testing::CommandResult result = diff({"a.json", "b.json"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(result.output, "the plans are the same\n");
}

TEST_F(DiffCommand, NamesThePoliciesAndWhatMoved) {
  plan("serial", "serial.json");
  plan("program", "program.json", {"--rewrites", "split-collective=1KB"});
  const testing::CommandResult result = diff({"serial.json", "program.json"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_TRUE(testing::has_parts(result.output, {"serial", "program", "split-collective=1024", "#2"}));
}

// Two neighbours of a queue change places: one task moved.
TEST_F(DiffCommand, NamesTheTaskThatMoved) {
  plan("program", "a.json");
  json file = json::parse(testing::TemporaryFolder::read(folder_.path("a.json")));
  json& sequence = file.at("sequence");
  std::size_t at = sequence.size() / 2;
  while (sequence[at].at("stream") != "compute0" || sequence[at + 1].at("stream") != "compute0") ++at;
  std::swap(sequence[at], sequence[at + 1]);
  folder_.write("b.json", file.dump());
  const testing::CommandResult result = diff({"a.json", "b.json"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const std::string one = sequence[at].at("task"), other = sequence[at + 1].at("task");
  EXPECT_TRUE(has(result.output, one) || has(result.output, other)) << result.output;
  EXPECT_TRUE(has(result.output, "compute0")) << result.output;
}

TEST_F(DiffCommand, MostLimitsTheTasksThatAreNamed) {
  plan("random:seed=1", "a.json");
  plan("random:seed=2", "b.json");
  const std::string few = diff({"a.json", "b.json", "--most", "1"}).output, some = diff({"a.json", "b.json"}).output,
                    all = diff({"a.json", "b.json", "--most", "0"}).output;
  EXPECT_LT(few.size(), some.size());
  EXPECT_LT(some.size(), all.size());
}

TEST_F(DiffCommand, RefusesWhatItCannotRead) {
  plan("serial", "a.json");
  folder_.write("empty.json", "");
  folder_.write("other.json", "{\"format\": \"weft-profile\"}");
  for (const char* file : {"missing.json", "empty.json", "other.json", "text.txt"}) {
    for (const bool first : {true, false}) {
      const testing::CommandResult result = first ? diff({file, "a.json"}) : diff({"a.json", file});
      EXPECT_EQ(result.exit_code, 2) << file << result.errors;
      EXPECT_EQ(result.output, "");
      EXPECT_TRUE(has(result.errors, file)) << result.errors;
      EXPECT_TRUE(has(result.errors, "fix: ")) << result.errors;
    }
  }
  EXPECT_EQ(diff({"a.json"}).exit_code, 2);
  EXPECT_EQ(diff({"a.json", "a.json", "--most", "-1"}).exit_code, 2);
}

}  // namespace
}  // namespace weft::tools
