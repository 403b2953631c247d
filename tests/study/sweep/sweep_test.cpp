#include "study/sweep/sweep.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/simulate/report.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/inspect/drawing/count_matches.h"
#include "train/config/resolved_run.h"
#include "train/step/planning.h"

namespace weft::study {
namespace {

/// Of two ranks, over two numbers of layers and two latencies.
Sweep tiny_sweep() {
  Sweep sweep;
  sweep.settings = {{"model", "tiny", "--model"},
                    {"ranks", "2", "--ranks"},
                    {"machine", "perlmutter", "--machine"},
                    {"seq-len", "32", "--seq-len"},
                    {"machine.devices-per-node", "1", "--set"}};
  sweep.keys = {{"model.layers", {"1", "2"}}, {"machine.network.latency", {"1e-6", "1e-3"}}};
  sweep.policies = {policy::named_policy("serial"), policy::named_policy("program")};
  sweep.threads = 2;
  return sweep;
}

std::vector<SweepRow> rows_of(const Sweep& sweep) {
  return run(experiment_of(sweep));
}

TEST(Sweep, HasTheRowsOfTheProduct) {
  const Sweep sweep = tiny_sweep();
  check_sweep(sweep);
  const std::vector<SweepRow> rows = rows_of(sweep);
  ASSERT_EQ(rows.size(), 8U);
  EXPECT_EQ(row_count(sweep), 8);
  const std::vector<std::vector<std::string>> values = {{"1", "1e-6"}, {"1", "1e-3"}, {"2", "1e-6"}, {"2", "1e-3"}};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].values, values[i / 2]);
    EXPECT_EQ(rows[i].policy, i % 2 == 0 ? "serial" : "program");
    EXPECT_EQ(rows[i].seed, 42U);
    EXPECT_TRUE(rows[i].possible() && rows[i].fits) << rows[i].reason;
    EXPECT_GE(rows[i].step_ms, rows[i].bound_ms);
  }
  // More layers and a slower network take longer.
  EXPECT_LT(rows[0].step_ms, rows[2].step_ms);
  EXPECT_LT(rows[0].communication_ms, rows[4].communication_ms);
  EXPECT_LT(rows[0].communication_ms + 1, rows[2].communication_ms);
}

/// The row has the figures of its configuration when it is planned anew.
void expect_planned(const Sweep& sweep, const SweepRow& row) {
  train::RunConfig config;
  train::apply_settings(config, sweep.settings);
  train::set_key(config, sweep.keys.front().key, row.values.front(), "");
  config.policy = row.policy;
  const train::ResolvedRun run = train::resolve(config, 0);
  const simulate::Report report = simulate::report_plan(train::planning_problem(run), run.policy);
  ASSERT_EQ(row.reason, "");
  EXPECT_EQ(row.step_ms, report.step_ns() * 1e-6);
  EXPECT_EQ(row.memory_bytes, report.memory_bytes());
  EXPECT_EQ(row.bound_ms, report.bounds.best() * 1e-6);
}

TEST(Sweep, SimulatesWhatSimulateDoes) {
  Sweep sweep = tiny_sweep();
  sweep.settings.pop_back();
  sweep.keys = {{"micro-batch", {"2"}}};
  sweep.policies.resize(1);
  expect_planned(sweep, rows_of(sweep).front());
}

TEST(Sweep, SimulatesPipelines) {
  Sweep sweep = tiny_sweep();
  sweep.settings.pop_back();
  sweep.keys = {{"grid", {"data=2", "pipe=2"}}};
  sweep.policies = {policy::named_policy("1f1b"), policy::named_policy("interleaved")};
  const std::vector<SweepRow> rows = rows_of(sweep);
  ASSERT_EQ(rows.size(), 4U);
  for (const std::size_t i : {2U, 3U}) expect_planned(sweep, rows[i]);
  sweep.noise = 0.2;
  sweep.seeds = 2;
  const std::vector<SweepRow> drawn = rows_of(sweep);
  EXPECT_EQ(drawn[4].reason, "");
  EXPECT_NE(drawn[4].step_ms, drawn[5].step_ms);
}

TEST(Sweep, DoesntDependOnThreadsNorOnRowsThatAreKnown) {
  Sweep sweep = tiny_sweep();
  sweep.noise = 0.2;
  sweep.seeds = 3;
  const std::vector<SweepRow> rows = rows_of(sweep);
  ASSERT_EQ(rows.size(), 24U);
  EXPECT_NE(rows[0].step_ms, rows[1].step_ms);
  sweep.threads = 1;
  EXPECT_EQ(rows_of(sweep), rows);
  // Known rows are taken as they are, also if a later seed alone is missing.
  std::vector<SweepRow> known = rows;
  known.erase(known.begin() + 4);
  known.front().tokens_per_s = 7;
  std::size_t computed = 0;
  std::vector<SweepRow> again =
      run(experiment_of(sweep), known, [&](std::span<const SweepRow> found) { computed += found.size(); });
  EXPECT_EQ(computed, 1U);
  EXPECT_EQ(again.front().tokens_per_s, 7);
  again.front() = rows.front();
  EXPECT_EQ(again, rows);
}

TEST(Sweep, ImpossibleCombinationsBecomeRows) {
  Sweep sweep = tiny_sweep();
  sweep.keys = {{"grid", {"data=2", "data=3"}}, {"memory", {"1GiB", "1MiB"}}};
  check_sweep(sweep);
  const std::vector<SweepRow> rows = rows_of(sweep);
  ASSERT_EQ(rows.size(), 8U);
  EXPECT_TRUE(rows[0].possible()) << rows[0].reason;
  EXPECT_NE(rows[2].reason.find("memory"), std::string::npos) << rows[2].reason;
  EXPECT_NE(rows[4].reason.find("3 ranks"), std::string::npos) << rows[4].reason;
  EXPECT_EQ(rows[4].reason.find('\n'), std::string::npos);
}

using testing::count_matches;

/// Two seeds of four combinations under two policies; the last combination is impossible.
class SweepOutput : public ::testing::Test {
 protected:
  SweepOutput() {
    sweep_.noise = 0.1;
    sweep_.seeds = 2;
    for (std::size_t i = 0; i < 16; ++i) {
      SweepRow row;
      row.values = {i < 8 ? "1" : "2", i / 4 % 2 == 0 ? "1e-6" : "1e-3"};
      row.policy = i / 2 % 2 == 0 ? "serial" : "program";
      row.seed = 42 + i % 2;
      if (i >= 12) {
        row.reason = "too large, \"far\" too large";
      } else {
        row.step_ms = 10 + static_cast<double>(i);
        row.tokens_per_s = 1e5;
        row.mfu = 0.25;
        row.memory_bytes = std::int64_t{1} << 30;
        row.fits = i < 8;
        row.bound_ms = 1.0 / 3;
      }
      rows_.push_back(row);
    }
  }

  Sweep sweep_ = tiny_sweep();
  std::vector<SweepRow> rows_;
};

TEST_F(SweepOutput, CsvIsReadBackAsTheRows) {
  const Columns<SweepRow> columns = sweep_columns(sweep_);
  EXPECT_EQ(columns.read(columns.csv(rows_), "results.csv", ""), rows_);
}

TEST_F(SweepOutput, JsonHasAllRows) {
  const auto rows = nlohmann::json::parse(results_of(sweep_, rows_).json().text()).at("rows");
  ASSERT_EQ(rows.size(), 16U);
  EXPECT_EQ(rows[0].at("model.layers"), 1);
  EXPECT_EQ(rows[0].at("machine.network.latency"), 1e-6);
  EXPECT_EQ(rows[1].at("seed"), 43);
  EXPECT_EQ(rows[0].at("bound_ms"), 1.0 / 3);
  EXPECT_TRUE(rows[15].at("step_ms").is_null() && rows[15].at("memory_bytes").is_null());
  EXPECT_EQ(rows[15].at("reason"), rows_[15].reason);
}

TEST_F(SweepOutput, TableHasALineForEachCombinationAndPolicy) {
  const std::string text = results_of(sweep_, rows_).text({}).plain();
  EXPECT_EQ(count_matches(text, "\n"), 9U) << text;
  EXPECT_EQ(count_matches(text, "10.50 ms  10.0. ms … 10.9. ms"), 1U) << text;
  EXPECT_EQ(count_matches(text, "doesn't fit"), 2U) << text;
  EXPECT_EQ(count_matches(text, "far"), 2U) << text;
}

TEST_F(SweepOutput, PictureHasASeriesForTheOtherKeysAndPolicies) {
  const std::string svg = results_of(sweep_, rows_).picture().svg();
  // The legend names four series; three have the first layer's point, two the second's.
  EXPECT_EQ(count_matches(svg, ">machine.network.latency=1e-[36], (serial|program)<"), 4U) << svg;
  EXPECT_EQ(count_matches(svg, "<title>model.layers=1,"), 4U);
  EXPECT_EQ(count_matches(svg, "<title>model.layers=2,"), 2U);
  EXPECT_EQ(count_matches(svg, ">step over model.layers<"), 1U);
}

TEST_F(SweepOutput, PictureNamesValuesThatAreNoNumbers) {
  sweep_.keys[0] = {"grid", {"data=2", "y=2"}};
  for (SweepRow& row : rows_) row.values[0] = row.values[0] == "1" ? "data=2" : "y=2";
  const std::string svg = results_of(sweep_, rows_).picture().svg();
  EXPECT_EQ(count_matches(svg, ">data=2<|>y=2<"), 2U) << svg;
}

using testing::TemporaryFolder;

class SweepFolderTest : public ::testing::Test {
 protected:
  SweepFolderTest() { sweep_.policies.resize(1); }

  /// Computes the sweep into the folder; returns the number of rows that were computed.
  std::size_t run(const Sweep& sweep) const {
    RowFolder<SweepRow> folder = sweep_folder(path_, sweep);
    std::size_t computed = 0;
    const auto rows = study::run(experiment_of(sweep), folder.rows(), [&](std::span<const SweepRow> found) {
      folder.keep(found);
      computed += found.size();
    });
    folder.finish(rows, results_of(sweep, rows));
    return computed;
  }
  std::string results() const { return TemporaryFolder::read(path_ / "results.csv"); }
  std::string refusal(const Sweep& sweep) const {
    return testing::message_of<UserError>([&] { sweep_folder(path_, sweep); });
  }

  const TemporaryFolder temporary_;
  const std::filesystem::path path_ = temporary_.path("out");
  Sweep sweep_ = tiny_sweep();
};

TEST_F(SweepFolderTest, HoldsResultsThatAreReadBack) {
  EXPECT_EQ(run(sweep_), 4U);
  const std::vector<SweepRow> rows = rows_of(sweep_);
  EXPECT_EQ(sweep_columns(sweep_).read(results(), "results.csv", ""), rows);
  const auto json = nlohmann::json::parse(TemporaryFolder::read(path_ / "results.json"));
  EXPECT_EQ(json.at("rows").at(3).at("step_ms").get<double>(), rows[3].step_ms);
  EXPECT_EQ(json.at("rows").at(3).at("model.layers"), 2);
  EXPECT_NE(TemporaryFolder::read(path_ / "plot.svg").find("<svg"), std::string::npos);
  train::RunConfig base;
  train::load_toml(base, (path_ / "base.toml").string());
  EXPECT_EQ(base.machine, "perlmutter");
}

TEST_F(SweepFolderTest, GoesOnWhereAKilledSweepStopped) {
  EXPECT_EQ(run(sweep_), 4U);
  const std::string whole = results();
  // Two rows in another order and the beginning of a third, as parallel rows leave them.
  const auto table = *read_csv(whole);
  const std::string third = csv_line(table[1]);
  std::ofstream(path_ / "results.csv") << csv_line(table[0]) << csv_line(table[4]) << csv_line(table[2])
                                       << third.substr(0, third.size() / 2);
  EXPECT_EQ(run(sweep_), 2U);
  EXPECT_EQ(results(), whole);
  EXPECT_EQ(run(sweep_), 0U);
  EXPECT_EQ(results(), whole);
}

TEST_F(SweepFolderTest, KeepsRowsOfOtherValues) {
  EXPECT_EQ(run(sweep_), 4U);
  sweep_.keys[0].values = {"2", "3"};
  EXPECT_EQ(run(sweep_), 2U);
  const auto table = *read_csv(results());
  ASSERT_EQ(table.size(), 7U);
  EXPECT_EQ(table[1][0], "2");
  EXPECT_EQ(table[5][0], "1");
}

TEST_F(SweepFolderTest, RefusesAnotherSweep) {
  run(sweep_);
  Sweep other = sweep_;
  other.noise = 0.25;
  EXPECT_NE(refusal(other).find("# noise: 0.25"), std::string::npos) << refusal(other);
  other = sweep_;
  other.settings[3].value = "16";
  EXPECT_NE(refusal(other).find("seq-len = 16"), std::string::npos) << refusal(other);
  other = sweep_;
  other.settings[4].value = "2";
  EXPECT_NE(refusal(other).find("machine.devices-per-node = 2"), std::string::npos) << refusal(other);
  other = sweep_;
  other.keys.pop_back();
  EXPECT_NE(refusal(other).find("columns"), std::string::npos) << refusal(other);
  EXPECT_EQ(refusal(sweep_), "");
}

TEST_F(SweepFolderTest, RefusesAMachineFileThatChanged) {
  const std::string machine =
      temporary_.write("m.toml", TemporaryFolder::read(WEFT_SOURCE_DIR "/machines/perlmutter.toml"));
  sweep_.settings[2].value = machine;
  run(sweep_);
  std::string text = TemporaryFolder::read(machine);
  const std::size_t at = text.find("devices-per-node = 4");
  ASSERT_NE(at, std::string::npos);
  text.replace(at, 20, "devices-per-node = 8");
  temporary_.write("m.toml", text);
  EXPECT_NE(refusal(sweep_).find("crc32c"), std::string::npos) << refusal(sweep_);
}

TEST_F(SweepFolderTest, RefusesFoldersThatItCantUse) {
  temporary_.write("out/mine.txt", "x");
  EXPECT_NE(refusal(sweep_).find("other files"), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(path_ / "mine.txt"));
  std::filesystem::remove(path_ / "mine.txt");
  {
    const RowFolder<SweepRow> running = sweep_folder(path_, sweep_);
    EXPECT_NE(refusal(sweep_).find("in use by process"), std::string::npos) << refusal(sweep_);
  }
  run(sweep_);
  temporary_.write("out/results.csv", csv_line(sweep_columns(sweep_).names()) + "1,2\n");
  EXPECT_NE(refusal(sweep_).find("row 1"), std::string::npos) << refusal(sweep_);
  temporary_.write("out/results.csv", "a\"b\n");
  EXPECT_NE(refusal(sweep_).find("CSV"), std::string::npos) << refusal(sweep_);
}

}  // namespace
}  // namespace weft::study
