// Jobs on threads: each once, kept one at a time, ended by an exception or by a job that keeps nothing.
#include "study/jobs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace weft::study {
namespace {

JobList numbered(std::size_t jobs) {
  return {jobs, [](std::size_t job) { return std::to_string(job); },
          [](std::size_t job) { return static_cast<std::int64_t>(job) + 1; }};
}

TEST(Jobs, AreKeptOnceEachByOneThreadAtATime) {
  for (const int threads : {0, 1, 3, 20}) {
    std::vector<std::size_t> kept;  // without a lock
    const auto work = [&](std::size_t job) -> Keep { return [&kept, job] { kept.push_back(job); }; };
    do_jobs(numbered(10), threads, work, [](const Status&) {});
    if (threads > 1) std::ranges::sort(kept);
    EXPECT_EQ(kept, (std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  }
  do_jobs(
      numbered(0), 4, [](std::size_t) -> Keep { throw std::logic_error("no job"); }, [](const Status&) {});
}

TEST(Jobs, TellTheirProgress) {
  std::vector<Status> told;
  do_jobs(
      numbered(4), 3, [](std::size_t) -> Keep { return [] {}; }, [&](const Status& status) { told.push_back(status); });
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
    const auto run = [&](int threads) { do_jobs(numbered(99), threads, work, [](const Status&) {}); };
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

}  // namespace
}  // namespace weft::study
