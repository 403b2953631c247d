#include "study/sweep/sweep_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "study/sweep/sweep_output.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/study/sweep/tiny_sweep.h"

namespace weft::study {
namespace {

using testing::TemporaryFolder;
using testing::tiny_sweep;

class SweepFolderTest : public ::testing::Test {
 protected:
  SweepFolderTest() { sweep_.policies.resize(1); }

  /// Computes the sweep into the folder; returns the number of rows that were computed.
  std::size_t run(const Sweep& sweep) const {
    SweepFolder folder(path_, sweep);
    std::size_t computed = 0;
    const std::vector<SweepRow> rows = run_sweep(
        sweep, folder.rows(),
        [&](std::span<const SweepRow> found) {
          folder.keep(found);
          computed += found.size();
        },
        [](const Status&) {});
    folder.finish(rows);
    return computed;
  }
  std::string results() const { return TemporaryFolder::read(path_ / "results.csv"); }
  std::string refusal(const Sweep& sweep) const {
    return testing::message_of<UserError>([&] { const SweepFolder folder(path_, sweep); });
  }

  const TemporaryFolder temporary_;
  const std::filesystem::path path_ = temporary_.path("out");
  Sweep sweep_ = tiny_sweep();
};

TEST_F(SweepFolderTest, HoldsResultsThatAreReadBack) {
  EXPECT_EQ(run(sweep_), 4U);
  const std::vector<SweepRow> rows = testing::rows_of(sweep_);
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
    const SweepFolder running(path_, sweep_);
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
