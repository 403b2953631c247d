// Who reads each record, and the content of the file.
#include "base/log.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <regex>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"

namespace weft {
namespace {

std::vector<std::string> lines_of(const std::filesystem::path& file) {
  std::istringstream text(testing::TemporaryFolder::read(file));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

/// The text that `say` writes to stderr.
template <class Say>
std::string on_stderr(Say say) {
  ::testing::internal::CaptureStderr();
  say();
  return ::testing::internal::GetCapturedStderr();
}

struct Record {
  std::string level, rank, topic, text;

  friend bool operator==(const Record&, const Record&) = default;
};

/// Parses one line of a log; its time must be valid.
Record parsed(const std::string& line) {
  static const std::regex form(R"((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}) (\w+) +(rank \d+|-) +(\w+) +(.*))");
  std::smatch match;
  EXPECT_TRUE(std::regex_match(line, match, form)) << line;
  return match.empty() ? Record{} : Record{match[2], match[3], match[4], match[5]};
}

class LogFile : public ::testing::Test {
 protected:
  const testing::TemporaryFolder folder_;
  const std::filesystem::path file_ = folder_.path("log.txt");
};

TEST_F(LogFile, ARecordIsALineWithTimeLevelRankAndTopic) {
  RunLog log;
  log.open(file_);
  Log(LogTopic::checkpoint, 3).info("{} written", "step_2");
  Log(LogTopic::run).info("begins");
  const std::vector<std::string> lines = lines_of(file_);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(parsed(lines[0]), (Record{"info", "rank 3", "checkpoint", "step_2 written"}));
  EXPECT_EQ(parsed(lines[1]), (Record{"info", "-", "run", "begins"}));
}

TEST_F(LogFile, HasTheLevelsThatWereAskedFor) {
  for (const LogLevel level : {LogLevel::error, LogLevel::warning, LogLevel::info, LogLevel::debug, LogLevel::trace}) {
    const std::filesystem::path file = folder_.path(to_string(level));
    const std::string errors = on_stderr([&] {
      RunLog run(level);
      run.open(file);
      const Log log(LogTopic::run);
      log.error("a");
      log.warning("b");
      log.info("c");
      log.debug("d");
      log.trace("e");
    });
    EXPECT_EQ(errors, "weft: error: a\nweft: warning: b\n");
    const std::vector<std::string> lines = lines_of(file);
    ASSERT_EQ(lines.size(), static_cast<std::size_t>(level) + 1);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      EXPECT_EQ(parsed(lines[i]).level, to_string(static_cast<LogLevel>(i)));
    }
  }
}

TEST_F(LogFile, NothingIsMadeOfArgumentsThatNobodyReads) {
  EXPECT_FALSE(Log::is_read(LogLevel::info));
  EXPECT_TRUE(Log::is_read(LogLevel::warning));
  {
    const RunLog log(LogLevel::error);
    EXPECT_TRUE(Log::is_read(LogLevel::warning));  // on stderr
    EXPECT_FALSE(Log::is_read(LogLevel::info));
    const RunLog inner(LogLevel::debug);
    EXPECT_TRUE(Log::is_read(LogLevel::debug));
    EXPECT_FALSE(Log::is_read(LogLevel::trace));
  }
  EXPECT_FALSE(Log::is_read(LogLevel::info));
}

TEST_F(LogFile, BeginsWithWhatWasSaidBefore) {
  {
    RunLog log;
    const Log run(LogTopic::run);
    run.info("early");
    run.debug("unread");
    EXPECT_FALSE(std::filesystem::exists(file_));
    log.open(file_);
    run.info("late");
  }
  Log(LogTopic::run).info("of nobody's run");
  const std::vector<std::string> lines = lines_of(file_);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(parsed(lines[0]).text, "early");
  EXPECT_EQ(parsed(lines[1]).text, "late");
  RunLog again;  // of the run when it goes on
  again.open(file_);
  Log(LogTopic::run).info("later");
  EXPECT_EQ(lines_of(file_).size(), 3U);
}

TEST_F(LogFile, ARunsLogIsBackWhenAnotherEnds) {
  RunLog outer;
  outer.open(file_);
  {
    RunLog inner;
    inner.open(folder_.path("inner.txt"));
    Log(LogTopic::run).info("inner");
  }
  Log(LogTopic::run).info("outer");
  ASSERT_EQ(lines_of(file_).size(), 1U);
  EXPECT_EQ(parsed(lines_of(file_)[0]).text, "outer");
}

TEST_F(LogFile, ALineIsOneAndSteersNoTerminal) {
  RunLog log;
  log.open(file_);
  const std::string errors = on_stderr([] { Log(LogTopic::run).warning("{}", "two\nlines\x1b[2J\t\xe2\x80\xae\xff"); });
  EXPECT_EQ(errors, "weft: warning: two\nlines\\x1b[2J\t\\u202e\\xff\n");
  ASSERT_EQ(lines_of(file_).size(), 1U);
  EXPECT_EQ(parsed(lines_of(file_)[0]).text, "two\\nlines\\x1b[2J\\t\\u202e\\xff");
}

TEST_F(LogFile, WhatIsToldStandsOnStderrAsItIs) {
  RunLog log;
  log.open(file_);
  const std::string errors = on_stderr([] {
    Log(LogTopic::watchdog, 1).tell(LogLevel::error, "rank 1: stuck");
    tell("for a person\n");
  });
  EXPECT_EQ(errors, "rank 1: stuck\nfor a person\n");
  ASSERT_EQ(lines_of(file_).size(), 1U);
  EXPECT_EQ(parsed(lines_of(file_)[0]), (Record{"error", "rank 1", "watchdog", "rank 1: stuck"}));
}

TEST_F(LogFile, RanksOfOneProcessShareIt) {
  RunLog log;
  log.open(file_);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back([rank] {
      for (int i = 0; i < 50; ++i) Log(LogTopic::comm, rank).info("record {} of rank {}", i, rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::vector<std::string> lines = lines_of(file_);
  EXPECT_EQ(lines.size(), 200U);
  for (const std::string& line : lines) {
    const Record record = parsed(line);
    EXPECT_TRUE(record.text.ends_with("of " + record.rank)) << line;
  }
}

TEST_F(LogFile, ThatCantBeWrittenCostsAWarningAndNoMore) {
  const std::string errors = on_stderr([&] {
    RunLog log;
    log.open(folder_.path("missing/log.txt"));
    Log(LogTopic::run).info("lost");
    Log(LogTopic::run).error("seen");
  });
  EXPECT_TRUE(has_parts(errors, {"weft: warning: ", "missing/log.txt", "No such file"}));
  EXPECT_EQ(std::count(errors.begin(), errors.end(), '\n'), 2);
  EXPECT_TRUE(errors.ends_with("weft: error: seen\n"));
  const std::string full = on_stderr([] {
    RunLog log;
    Log(LogTopic::run).info("early");
    log.open("/dev/full");
    Log(LogTopic::run).info("lost");
  });
  EXPECT_TRUE(has_parts(full, {"weft: warning: ", "/dev/full", "No space left"}));
  EXPECT_EQ(std::count(full.begin(), full.end(), '\n'), 1);
}

// A run folder may belong to somebody else.
TEST_F(LogFile, ALinkIsNotWrittenThroughAndAPipeHoldsNobodyUp) {
  const std::filesystem::path victim = folder_.write("victim", "precious");
  std::filesystem::create_symlink(victim, file_);
  ASSERT_EQ(::mkfifo(folder_.path("pipe").c_str(), 0600), 0);
  const std::string errors = on_stderr([&] {
    RunLog log;
    log.open(file_);
    Log(LogTopic::run).info("mine");
    RunLog piped;
    piped.open(folder_.path("pipe"));
  });
  EXPECT_EQ(testing::TemporaryFolder::read(victim), "precious");
  EXPECT_EQ(
      parsed(testing::TemporaryFolder::read(file_).substr(0, testing::TemporaryFolder::read(file_).find('\n'))).text,
      "mine");
  EXPECT_EQ(std::count(errors.begin(), errors.end(), '\n'), 1) << errors;
}

}  // namespace
}  // namespace weft
