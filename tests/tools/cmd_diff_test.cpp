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
  void plan(const std::string& policy, const std::string& output, const Words& more = {}) const {
    const Words words = {"--grid", "x=2", "--micro-batch", "1", "--policy", policy, "-o", output};
    testing::succeeded(weft("plan", testing::joined(words, more)));
  }
  std::string diff(const Words& more) const { return output(testing::joined({"diff"}, more)); }
};

TEST_F(DiffCommand, EqualPlansAreTheSame) {
  plan("axonn", "a.json");
  plan("axonn", "b.json");
  EXPECT_EQ(diff({"a.json", "b.json"}), "the plans are the same\n");
}

TEST_F(DiffCommand, NamesThePoliciesAndWhatMoved) {
  plan("serial", "serial.json");
  plan("program", "program.json", {"--rewrites", "split-collective=1KB"});
  EXPECT_TRUE(has_parts(diff({"serial.json", "program.json"}), {"serial", "program", "split-collective=1024", "#2"}));
}

// Two neighbours of a queue change places: one task moved.
TEST_F(DiffCommand, NamesTheTaskThatMoved) {
  plan("program", "a.json");
  json file = read_json("a.json");
  json& sequence = file.at("sequence");
  std::size_t at = sequence.size() / 2;
  while (sequence[at].at("stream") != "compute0" || sequence[at + 1].at("stream") != "compute0") ++at;
  std::swap(sequence[at], sequence[at + 1]);
  folder_.write("b.json", file.dump());
  const std::string moved = diff({"a.json", "b.json"});
  const std::string one = sequence[at].at("task"), other = sequence[at + 1].at("task");
  EXPECT_TRUE(has(moved, one) || has(moved, other)) << moved;
  EXPECT_TRUE(has_parts(moved, {"compute0"}));
}

TEST_F(DiffCommand, MostLimitsTheTasksThatAreNamed) {
  plan("random:seed=1", "a.json");
  plan("random:seed=2", "b.json");
  const std::string few = diff({"a.json", "b.json", "--most", "1"}), some = diff({"a.json", "b.json"}),
                    all = diff({"a.json", "b.json", "--most", "0"});
  EXPECT_LT(few.size(), some.size());
  EXPECT_LT(some.size(), all.size());
}

TEST_F(DiffCommand, RefusesWhatItCannotRead) {
  plan("serial", "a.json");
  folder_.write("empty.json", "");
  folder_.write("other.json", "{\"format\": \"weft-profile\"}");
  for (const char* file : {"missing.json", "empty.json", "other.json", "text.txt"}) {
    expect_refusal({"diff", file, "a.json"}, {file});
    expect_refusal({"diff", "a.json", file}, {file});
  }
  EXPECT_EQ(run({"diff", "a.json"}).exit_code, 2);
  EXPECT_EQ(run({"diff", "a.json", "a.json", "--most", "-1"}).exit_code, 2);
}

}  // namespace
}  // namespace weft::tools
