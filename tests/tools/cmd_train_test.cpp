// `weft train` as a process: the same bytes from threads and from MPI, signals, time limits, and the output for
// scripts.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/tools/weft_folder.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/checkpoint/manifest.h"

namespace weft::tools {
namespace {

class TrainCommand : public testing::WeftFolder {
 protected:
  TrainCommand() { write_text(); }

  /// The words of a small run in `run_dir`, and `more`.
  static Words small_run(const std::string& run_dir, const Words& more) {
    const Words words = testing::words_in(
        "train --model custom --model.layers 2 --model.hidden 16 --model.heads 4 --model.kv-heads 4 --model.ffn 24 "
        "--model.context 16 --data text.txt --micro-batch 1 --threads 1 --dropout 0.1 --clip 0.5 --run-dir " +
        run_dir);
    return testing::joined(words, more);
  }
  testing::CommandResult train(const std::string& run_dir, const std::vector<std::string>& more) const {
    return run(small_run(run_dir, more));
  }
  testing::CommandResult train_with_mpi(int ranks, const std::string& run_dir,
                                        const std::vector<std::string>& more) const {
    return testing::run(testing::mpi_words(ranks, small_run(run_dir, more)), folder_.path().string());
  }

  std::filesystem::path checkpoint(const std::string& run_dir, std::int64_t step) const {
    return train::checkpoint_path(folder_.path(run_dir), step);
  }
  /// Every file of arrays in a checkpoint, by name.
  std::map<std::string, std::string> arrays(const std::string& run_dir, std::int64_t step) const {
    std::map<std::string, std::string> files;
    const std::filesystem::path at = checkpoint(run_dir, step);
    if (!std::filesystem::exists(at)) return files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(at)) {
      if (entry.path().extension() == ".safetensors") {
        files[entry.path().filename().string()] = testing::TemporaryFolder::read(entry.path());
      }
    }
    return files;
  }
  std::size_t lines_of_metrics(const std::string& run_dir) const {
    const std::string text = read(run_dir + "/metrics.jsonl");
    return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  }
};

// -- processes and threads --------------------------------------------------------------------------------------------

struct Mode {
  const char* name;
  int ranks;
  std::vector<std::string> arguments;
};

class TrainCommandMpi : public TrainCommand, public ::testing::WithParamInterface<Mode> {};

INSTANTIATE_TEST_SUITE_P(Modes, TrainCommandMpi,
                         ::testing::Values(Mode{"Gpt2On2", 2, {}}, Mode{"Gpt2On4", 4, {}},
                                           Mode{"Serial", 2, {"--policy", "serial"}},
                                           Mode{"LlamaBf16On2",
                                                2,
                                                {"--model.family", "llama", "--model.kv-heads", "2", "--model.tied",
                                                 "false", "--dtype", "bf16", "--recompute", "block", "--threads", "2"}},
                                           Mode{"Gpt2OnX2Z2", 4, {"--grid", "x=2,z=2"}},
                                           Mode{"Gpt2OnZ2Data2Context2", 4, {"--grid", "z=2,data=2,context=2"}},
                                           Mode{"LlamaOnX2Y2Data2WithZero1",
                                                8,
                                                {"--model.family", "llama", "--grid", "x=2,y=2,data=2", "--zero-1",
                                                 "true", "--axis-order", "data,y,x,z", "--recompute", "block"}}),
                         [](const auto& info) { return info.param.name; });

TEST_P(TrainCommandMpi, ProcessesGiveTheBytesOfThreads) {
  std::vector<std::string> arguments = {"--steps", "10"};
  arguments.insert(arguments.end(), GetParam().arguments.begin(), GetParam().arguments.end());
  const testing::CommandResult processes = testing::succeeded(train_with_mpi(GetParam().ranks, "processes", arguments));
  EXPECT_TRUE(testing::contains(processes.errors, "MPI processes)")) << processes.errors;
  arguments.insert(arguments.end(), {"--ranks", std::to_string(GetParam().ranks)});
  testing::succeeded(train("threads", arguments));
  const auto expected = arrays("threads", 10), found = arrays("processes", 10);
  ASSERT_GE(expected.size(), 2U);
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, bytes] : expected) {
    ASSERT_TRUE(found.contains(name)) << name;
    EXPECT_TRUE(found.at(name) == bytes) << name << " differs";
  }
  EXPECT_EQ(lines_of_metrics("processes"), 10U);
}

/// The value of a key in a run's configuration.
std::string stored_value(const std::filesystem::path& run, const std::string& key) {
  const std::string toml = testing::TemporaryFolder::read(run / "config.toml");
  const std::size_t at = toml.find("\n" + key + " = ") + key.size() + 4;
  return toml.substr(at, toml.find('\n', at) - at);
}

// All ranks get the choice of one, and it is in the run's folder, which goes on with it.
TEST_F(TrainCommand, AChosenGridIsTheSameForProcessesAndThreads) {
  const std::vector<std::string> open = {"--steps", "4", "--grid", "auto", "--micro-batch", "0"};
  const testing::CommandResult processes = testing::succeeded(train_with_mpi(4, "processes", open));
  const testing::CommandResult threads = testing::succeeded(train("threads", testing::joined(open, {"--ranks", "4"})));
  for (const testing::CommandResult& result : {processes, threads}) {
    EXPECT_TRUE(has_parts(result.errors, {"grid       x=", "a step and ", "next best x=", "the best of "}));
    EXPECT_EQ(testing::count(result.errors, "the best of "), 1U) << result.errors;
  }
  for (const char* key : {"grid", "axis-order", "micro-batch", "recompute", "reshard-after-forward", "zero-1"}) {
    EXPECT_EQ(stored_value(folder_.path("processes"), key), stored_value(folder_.path("threads"), key)) << key;
  }
  const std::string grid = stored_value(folder_.path("threads"), "grid");
  EXPECT_TRUE(grid.starts_with("\"x=")) << grid;
  EXPECT_NE(stored_value(folder_.path("threads"), "micro-batch"), "0");
  EXPECT_TRUE(arrays("processes", 4) == arrays("threads", 4));

  // By its name alone, by its file, and by the open configuration that started it.
  const testing::CommandResult by_name = testing::succeeded(run({"train", "--resume", "threads", "--steps", "5"}));
  EXPECT_FALSE(testing::contains(by_name.errors, "the best of ")) << by_name.errors;
  const testing::CommandResult again =
      testing::succeeded(train("threads", testing::joined(open, {"--ranks", "4", "--resume", "auto", "--steps", "6"})));
  EXPECT_TRUE(testing::contains(again.errors, "as the run has it that goes on")) << again.errors;
  EXPECT_EQ(stored_value(folder_.path("threads"), "grid"), grid);
  const nlohmann::json fewer =
      object_of({"train", "--resume", "threads", "--steps", "7", "--grid", "auto", "--ranks", "2"});
  EXPECT_EQ('"' + fewer.at("grid").get<std::string>() + '"', stored_value(folder_.path("threads"), "grid"));
  EXPECT_NE(stored_value(folder_.path("threads"), "grid"), grid);
}

TEST_F(TrainCommand, AGridThatCantBeChosenIsRefusedByAllProcesses) {
  const testing::CommandResult refused = train_with_mpi(3, "run", {"--grid", "auto"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_EQ(testing::count(refused.errors, "no grid of 3 ranks fits"), 1U) << refused.errors;
  EXPECT_FALSE(exists("run"));
  const testing::CommandResult other = train_with_mpi(2, "run", {"--grid", "auto", "--ranks", "4"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_TRUE(testing::contains(other.errors, "ranks = 4, but 2 ranks were started")) << other.errors;
}

// A run that processes began goes on with threads, and the other way round.
TEST_F(TrainCommand, MpiRunsResumeBitForBit) {
  testing::succeeded(train("whole", {"--steps", "20", "--ranks", "2", "--save-every", "10"}));
  std::filesystem::create_directories(folder_.path("rest/checkpoints"));
  std::filesystem::copy(checkpoint("whole", 10), checkpoint("rest", 10), std::filesystem::copy_options::recursive);
  testing::succeeded(train_with_mpi(2, "rest", {"--steps", "20", "--resume", "auto"}));
  EXPECT_EQ(lines_of_metrics("rest"), 10U);
  EXPECT_TRUE(arrays("rest", 20) == arrays("whole", 20));
}

TEST_F(TrainCommand, MpiRanksRefuseTogetherAndSaySoOnce) {
  const testing::CommandResult result =
      testing::run(testing::mpi_words(3, {"train", "missing.toml"}), folder_.path().string());
  EXPECT_EQ(result.exit_code, 2);
  const std::string message = "weft: error: the configuration file missing.toml can't be read";
  const std::size_t first = result.errors.find(message);
  ASSERT_NE(first, std::string::npos) << result.errors;
  EXPECT_EQ(result.errors.find(message, first + 1), std::string::npos) << result.errors;
}

// Of the launcher's processes only one has an error of its own.
TEST_F(TrainCommand, MpiRanksSayWhatOnlyTheyRefuse) {
  const std::vector<std::string> words{WEFT_MPIEXEC,
                                       "--allow-run-as-root",
                                       "--oversubscribe",
                                       "--mca",
                                       "odls_base_sigkill_timeout",
                                       "0",
                                       "-np",
                                       "1",
                                       "/bin/sleep",
                                       "10",
                                       ":",
                                       "-np",
                                       "1",
                                       WEFT_EXECUTABLE,
                                       "train",
                                       "missing.toml"};
  const testing::CommandResult result = testing::run(words, folder_.path().string());
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(testing::contains(result.errors, "missing.toml can't be read")) << result.errors;
}

// -- ends -------------------------------------------------------------------------------------------------------------

// Older builds stored the key eval-batches, and no data-dtype.
TEST_F(TrainCommand, ARunOfAnOlderBuildGoesOn) {
  testing::succeeded(train("run", {"--steps", "2"}));
  const auto as_before = [](std::string toml, const std::string& eval_batches) {
    for (const auto& [key, former] : std::map<std::string, std::string>{
             {"eval-sequences = 0\n", "eval-batches = " + eval_batches + "\n"}, {"data-dtype = \"auto\"\n", ""}}) {
      const std::size_t at = toml.find(key);
      EXPECT_NE(at, std::string::npos) << key;
      if (at != std::string::npos) toml.replace(at, key.size(), former);
    }
    return toml;
  };
  const auto store_as_before = [&](std::int64_t step, const std::string& eval_batches) {
    const std::string path = (checkpoint("run", step) / "manifest.json").string();
    train::Manifest manifest = train::parse_manifest(testing::TemporaryFolder::read(path), path);
    manifest.info.config_toml = as_before(manifest.info.config_toml, eval_batches);
    folder_.write(path, train::to_json(manifest));
  };
  store_as_before(2, "0");
  folder_.write("run/config.toml", as_before(read("run/config.toml"), "0"));
  EXPECT_EQ(run({"eval", "run"}).exit_code, 0);
  testing::succeeded(run({"train", "run/config.toml", "--steps", "3", "--resume", "auto"}));
  EXPECT_FALSE(arrays("run", 3).empty());
  // Another number counted something that eval-sequences doesn't count.
  store_as_before(3, "4");
  const testing::CommandResult refused = run({"eval", "run"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_TRUE(testing::contains(refused.errors, "set eval-sequences")) << refused.errors;
  EXPECT_EQ(run({"eval", "run", "--eval-sequences", "8"}).exit_code, 0);
}

TEST_F(TrainCommand, MaxTimeIsAnOrdinaryEnd) {
  const testing::CommandResult result = testing::succeeded(train("run", {"--steps", "1000000", "--max-time", "0.001"}));
  // Whether the first step ends within a millisecond is the machine's affair.
  const auto done = static_cast<std::int64_t>(lines_of_metrics("run"));
  ASSERT_GE(done, 1) << result.output;
  EXPECT_TRUE(has_parts(result.output, {"by --max-time after step " + std::to_string(done) + " of 1000000"}));
  // As it was called, with its path.
  EXPECT_TRUE(testing::contains(result.output, "/weft train run/config.toml --resume auto")) << result.output;
  EXPECT_FALSE(arrays("run", done).empty());
}

TEST_F(TrainCommand, ARunThatIsDoneSaysSo) {
  testing::succeeded(train("run", {"--steps", "2"}));
  const testing::CommandResult result = testing::succeeded(train("run", {"--steps", "2", "--resume", "auto"}));
  EXPECT_TRUE(testing::contains(result.output, "none left: 2 of 2 were done before")) << result.output;
}

TEST_F(TrainCommand, FiveLinesStandBeforeTheFirstLoss) {
  const std::vector<std::string> flags = {"--steps", "2", "--ranks", "2", "--micro-batch", "4"};
  const auto lines_before_loss = [](const std::string& text) {
    return std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(text.find("loss")), '\n');
  };
  const nlohmann::json run = object_of(small_run("planned", testing::joined(flags, {"--dry-run"})));
  const std::string fingerprint = run.at("plans").at("train").at("fingerprint");
  const std::string brief = train("brief", flags).errors,
                    verbose = train("verbose", testing::joined(flags, {"--verbose"})).errors;
  EXPECT_EQ(lines_before_loss(brief), 5) << brief;
  EXPECT_FALSE(testing::contains(brief, fingerprint));
  EXPECT_TRUE(testing::contains(verbose, fingerprint)) << verbose;
  EXPECT_TRUE(testing::contains(testing::TemporaryFolder::read(folder_.path("brief") / "log.txt"), fingerprint));
}

TEST_F(TrainCommand, ALogHasTheStepsAndTheShareOfTheMachine) {
  testing::succeeded(train("run", {"--steps", "7", "--log-every", "3", "--machine", "laptop", "--ranks", "2"}));
  const std::string log = read("run/log.txt");
  for (const char* step : {"1", "3", "6", "7"}) {
    EXPECT_TRUE(testing::contains(log, std::string("step ") + step + "/7  loss ")) << log;
  }
  EXPECT_EQ(testing::count(log, "tok/s  MFU "), 4U);
  const std::string metrics = read("run/metrics.jsonl");
  const nlohmann::json line = nlohmann::json::parse(metrics.substr(0, metrics.find('\n')));
  // 30 Gflop/s a rank, of machines/laptop.toml.
  EXPECT_NEAR(line.at("mfu").get<double>(), line.at("model_tflops").get<double>() / 2 / 0.03, 1e-4);
}

TEST_F(TrainCommand, SamplesSpeakTheTokenizerOfTheData) {
  std::filesystem::create_directory(folder_.path("bpe"));
  testing::succeeded(run(testing::words_in("tokenize --train bpe --vocab 300 text.txt -o bpe/tokenizer.json")));
  const Words words = {"--model.vocab", "300", "--tokenizer", "bpe", "--steps", "5"};
  const nlohmann::json none = object_of(small_run("none", words));
  EXPECT_EQ(none.at("sample"), "");
  const nlohmann::json some = object_of(small_run("some", testing::joined(words, {"--sample-every", "2"})));
  EXPECT_TRUE(some.at("sample").get<std::string>().starts_with("The"));
  EXPECT_EQ(some.at("last_loss"), none.at("last_loss"));
  const std::string log = read("some/log.txt");
  EXPECT_TRUE(has_parts(log, {"a sample after step 2: The", "a sample after step 4: The"}));
  EXPECT_EQ(testing::count(log, "a sample after step"), 2U);
  // Nobody knows what these ids say.
  std::string ids;
  for (int i = 0; i < 400; ++i) ids += {static_cast<char>(i % 200), '\1'};
  folder_.write("ids.bin", ids);
  Words unknown = small_run("refused", {"--model.vocab", "600", "--data-dtype", "u16", "--sample-every", "2"});
  std::ranges::replace(unknown, "text.txt", "ids.bin");
  const testing::CommandResult refused = run(unknown);
  EXPECT_EQ(refused.exit_code, 2) << refused.errors;
  EXPECT_TRUE(testing::contains(refused.errors, "sample-every = 2"));
  EXPECT_FALSE(exists("refused/metrics.jsonl"));
}

// -- for scripts ------------------------------------------------------------------------------------------------------

TEST_F(TrainCommand, JsonIsOneObjectWithWhatHappened) {
  const nlohmann::json report = object_of(small_run("run", {"--steps", "3", "--ranks", "2"}));
  EXPECT_EQ(report.at("run_dir"), "run");
  EXPECT_EQ(report.at("first_step"), 0);
  EXPECT_EQ(report.at("steps_done"), 3);
  for (const char* key : {"first_loss", "last_loss", "first_val_loss", "val_loss", "tokens_per_s", "step_ms",
                          "exposed_comm_ms", "communication_ms", "overlap_fraction", "peak_memory_bytes", "seconds"}) {
    EXPECT_TRUE(report.at(key).is_number()) << key;
  }
  EXPECT_EQ(report.at("stopped_by_signal"), false);
  EXPECT_EQ(report.at("stopped_by_time"), false);
  EXPECT_TRUE(report.at("sample").is_string());
  EXPECT_EQ(report.at("devices"), nlohmann::json::array());
  EXPECT_EQ(report.at("communicator"), "local");
  ASSERT_FALSE(report.at("files").empty());
  for (const nlohmann::json& file : report.at("files")) {
    EXPECT_TRUE(exists(file.get<std::string>())) << file;
  }
}

// Prompts of four sequences' length, with completions of three tokens.
TEST_F(TrainCommand, AStepThatLearnsNothingHasNoLossAndTheRunSaysHowMany) {
  std::string lines;
  for (int i = 0; i < 8; ++i) {
    lines += fmt::format("{{\"prompt\": \"{}\", \"completion\": \"yes\"}}\n", std::string(60, 'a'));
  }
  folder_.write("long.jsonl", lines);
  output({"tokenize", "long.jsonl", "-o", "long.bin"});
  const testing::CommandResult ran =
      run({"train", "--model", "tiny", "--data", "long.bin", "--val-data", "long.bin", "--seq-len", "16",
           "--global-batch", "1", "--threads", "1", "--steps", "12", "--run-dir", "r", "--save=false", "--quiet"});
  ASSERT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_TRUE(has_parts(ran.errors, {"sequences of an epoch", "no target that counts in the loss"}));
  std::istringstream metrics(read("r/metrics.jsonl"));
  std::size_t learnt = 0, nothing = 0;
  for (std::string line; std::getline(metrics, line);) {
    const auto step = nlohmann::json::parse(line);
    EXPECT_EQ(step.at("loss").is_null(), step.contains("note")) << line;
    EXPECT_NE(step.at("loss"), 0.0) << line;
    ++(step.at("loss").is_null() ? nothing : learnt);
  }
  EXPECT_EQ(learnt + nothing, 12U);
  EXPECT_GT(learnt, 0U);
  EXPECT_GT(nothing, 4U);
  EXPECT_TRUE(has(read("r/log.txt"), "no target that counts in the loss"));
}

TEST_F(TrainCommand, DryRunWritesNothing) {
  const Words words = small_run("run", {"--dry-run", "--ranks", "2"});
  const nlohmann::json planned = object_of(words);
  EXPECT_EQ(planned.at("device"), "cpu");
  EXPECT_EQ(planned.at("devices"), nlohmann::json::array());
  EXPECT_EQ(planned.at("communicator"), "local");
  const std::string fingerprint = planned.at("plans").at("train").at("fingerprint");
  EXPECT_TRUE(has_parts(output(words), {fingerprint}));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1) << "text.txt alone";
}

// -- the run itself as the configuration
// ---------------------------------------------------------------------------------

TEST_F(TrainCommand, MoreThreadsThanTwiceTheCoresAreTold) {
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  const std::string threads = std::to_string(2 * cores + 1);
  const auto told = [&](const Words& more) {
    return testing::succeeded(train("run", testing::joined({"--steps", "1", "--dry-run"}, more))).errors;
  };
  const std::string on = fmt::format(" each on {} cores", cores);
  EXPECT_TRUE(has_parts(told({"--threads", threads}), {"1 rank with " + threads + " threads" + on}));
  EXPECT_TRUE(has_parts(told({"--ranks", threads, "--global-batch", threads}),
                        {threads + " ranks with 1 thread" + on, fmt::format("--ranks {} or fewer", cores)}));
  EXPECT_EQ(told({}).find(on), std::string::npos);
}

TEST_F(TrainCommand, ARunGoesOnByItsNameAlone) {
  testing::succeeded(train("run", {"--steps", "4", "--lr", "0.01", "--schedule", "constant"}));
  testing::succeeded(train("whole", {"--steps", "6", "--lr", "0.01", "--schedule", "constant"}));
  const nlohmann::json json = object_of({"train", "--resume", "run", "--steps", "6"});
  EXPECT_EQ(json.at("run_dir"), "run");
  EXPECT_EQ(json.at("first_step"), 4);
  EXPECT_EQ(json.at("steps_done"), 6);
  EXPECT_TRUE(arrays("run", 6) == arrays("whole", 6));
}

TEST_F(TrainCommand, AResumedRunKeepsTheSizesOfItsModel) {
  testing::succeeded(train("run", {"--steps", "2"}));
  for (const auto& [flag, value] : {std::pair("--model.heads", "2"), std::pair("--model.norm-eps", "1e-3"),
                                    std::pair("--model.family", "llama"), std::pair("--model", "small")}) {
    expect_refusal({"train", "--resume", "run", "--steps", "6", flag, value}, {});
  }
  const testing::CommandResult warned =
      testing::succeeded(run({"train", "--resume", "run", "--steps", "3", "--seed", "9"}));
  EXPECT_TRUE(testing::contains(warned.errors, "weft: warning: seed = 9")) << warned.errors;
}

}  // namespace
}  // namespace weft::tools
