// Jobs on threads: each once, kept one at a time, ended by an exception or by a job that keeps nothing. Rows of points
// that are known or computed.
#include "study/experiment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.h"
#include "inspect/drawing/chart.h"

namespace weft::study {
namespace {

using Work = std::function<Keep(std::size_t job)>;

void do_numbered(
    std::size_t count, int threads, const Work& work, const TellStatus& tell = [](const Status&) {}) {
  std::vector<Job> jobs;
  for (std::size_t i = 0; i < count; ++i)
    jobs.push_back(
        {std::to_string(i), static_cast<std::int64_t>(i) + 1, [&work, i](const TellStatus&) { return work(i); }});
  do_jobs(jobs, threads, tell);
}

TEST(Jobs, AreKeptOnceEachByOneThreadAtATime) {
  for (const int threads : {0, 1, 3, 20}) {
    std::vector<std::size_t> kept;  // without a lock
    const auto work = [&](std::size_t job) -> Keep { return [&kept, job] { kept.push_back(job); }; };
    do_numbered(10, threads, work);
    if (threads > 1) std::ranges::sort(kept);
    EXPECT_EQ(kept, (std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  }
  do_numbered(0, 4, [](std::size_t) -> Keep { throw std::logic_error("no job"); });
}

TEST(Jobs, TellTheirProgress) {
  std::vector<Status> told;
  do_numbered(
      4, 3, [](std::size_t) -> Keep { return [] {}; }, [&](const Status& status) { told.push_back(status); });
  ASSERT_EQ(told.size(), 8U);
  EXPECT_EQ(told.front().text, "[0/4] 0");
  EXPECT_EQ(told.back().text, "[4/4] ");
  EXPECT_EQ(told.back().done, 10);
  for (const Status& status : told) EXPECT_EQ(status.total, 10);
}

TEST(Jobs, EndWithTheFirstThatFailsOrKeepsNothing) {
  std::vector<std::size_t> kept;
  for (const bool fails : {false, true}) {
    const auto work = [&](std::size_t job) -> Keep {
      if (job == 2 && fails) throw std::runtime_error("job 2");
      return job == 2 ? Keep() : [&kept, job] { kept.push_back(job); };
    };
    const auto run = [&](int threads) { do_numbered(99, threads, work); };
    if (fails) {
      EXPECT_THROW(run(1), std::runtime_error);
    } else {
      run(1);
    }
    EXPECT_EQ(kept, (std::vector<std::size_t>{0, 1}));
    if (fails) {
      EXPECT_THROW(run(4), std::runtime_error);
    }
    kept.clear();
  }
}

struct Square {
  int root = 0, square = 0;
  friend bool operator==(const Square&, const Square&) = default;
};

/// Of the roots 0 to 5, two at a time; a signal comes at the root `last`.
Experiment<Square> squares(int last = 6) {
  Experiment<Square> experiment{.together = 2};
  for (int i = 0; i < 6; ++i) experiment.points.push_back({.root = i});
  experiment.name = [](const Square& row) { return std::vector{std::to_string(row.root)}; };
  experiment.compute = [last](std::span<Square> rows, const TellStatus& tell) {
    tell({fmt::format("{} rows", rows.size())});
    for (Square& row : rows) row.square = row.root * row.root;
    return rows.front().root < last;
  };
  return experiment;
}

TEST(Experiment, ComputesTheRowsThatArentKnown) {
  std::vector<Square> kept;
  std::string told;
  const std::vector<Square> known = {{2, 7}, {5, 8}, {4, 9}, {9, 81}};
  const auto keep = [&](std::span<const Square> rows) { kept.insert(kept.end(), rows.begin(), rows.end()); };
  const auto rows = run(squares(), known, keep, [&](const Status& status) { told += status.text + "\n"; });
  EXPECT_EQ(rows, (std::vector<Square>{{0, 0}, {1, 1}, {2, 7}, {3, 9}, {4, 9}, {5, 8}}));
  EXPECT_EQ(kept, (std::vector<Square>{{0, 0}, {1, 1}, {3, 9}}));
  EXPECT_EQ(told, "[0/2] 0\n[0/2] 0: 2 rows\n[1/2] \n[1/2] 3\n[1/2] 3: 1 rows\n[2/2] \n");
}

TEST(Experiment, ASignalLeavesRowsOut) {
  const auto rows = run(squares(2));
  EXPECT_EQ(rows, (std::vector<Square>{{0, 0}, {1, 1}}));
}

TEST(Results, HaveTheFormOfAFilesEnding) {
  const Results results{.text = {},
                        .json = [] { return JsonObject().add("rows", 2); },
                        .csv = [] { return std::string("a,b\n"); },
                        .picture = [] { return inspect::chart_picture({.title = "squares"}); }};
  EXPECT_EQ(results.file("a.csv"), "a,b\n");
  EXPECT_EQ(results.file("b/a.json"), "{\n \"rows\": 2\n}\n");
  EXPECT_NE(results.file("a.svg").find("squares"), std::string::npos);
  expect_form("a/b.svg");
  EXPECT_THROW(expect_form("a.png"), UserError);
  EXPECT_THROW(expect_form("a"), UserError);
}

}  // namespace
}  // namespace weft::study
