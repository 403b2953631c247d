// Ranks with different files are refused with both values, the same on every rank, for any difference.
#include "train/run/run_inputs.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/base/messages.h"
#include "tests/train/data/written_tokens.h"
#include "tests/train/tiny_run.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/step/step_data.h"

namespace weft::train {
namespace {

class RunInputsOfTwo : public ::testing::Test {
 protected:
  RunInputsOfTwo() {
    for (const char* rank : {"0", "1"}) folder_.write(std::string(rank) + "/text.txt", testing::tiny_text());
  }
  /// A configuration with paths in the rank's own folder.
  RunConfig config(int rank) const {
    RunConfig config = testing::tiny_run(folder_, ops::Family::gpt2);
    config.data = path(rank, "text.txt");
    config.run_dir = path(rank, "run");
    config.steps = 2;
    config.ranks = 1;
    return config;
  }
  std::string path(int rank, const std::string& name) const {
    return folder_.path(std::to_string(rank) + "/" + name).string();
  }
  void train(int rank, std::int64_t steps, std::uint64_t seed = 42) const {
    RunConfig of = config(rank);
    of.steps = steps;
    of.seed = seed;
    of.save_every = 1;
    testing::train_run(of);
  }
  struct Found {
    std::string refusal;
    RunInputs inputs;
  };
  std::vector<Found> find(const std::function<void(RunConfig&, int rank)>& change) const {
    std::vector<Found> found(2);
    testing::on_own_worlds(2, [&](comm::World& world) {
      RunConfig own = config(world.rank());
      change(own, world.rank());
      fill_in(own, 0);
      Found& result = found[static_cast<std::size_t>(world.rank())];
      result.refusal = testing::message_of<UserError>([&] { result.inputs = find_run_inputs(world, own); });
    });
    return found;
  }
  void expect_refused(const std::function<void(RunConfig&, int rank)>& change,
                      std::initializer_list<std::string_view> parts) const {
    const std::vector<Found> found = find(change);
    EXPECT_TRUE(has_parts(found[0].refusal, parts));
    EXPECT_EQ(found[0].refusal, found[1].refusal);
  }

  const testing::TemporaryFolder folder_;
};

const auto kAsItIs = [](RunConfig&, int) {};
const auto kResume = [](RunConfig& config, int) { config.resume = "auto"; };

/// A file of a token each document, of which those in `ignored` aren't learnt.
std::string write_ignored(const testing::TemporaryFolder& folder, const std::string& name, const std::string& ignored) {
  std::string path = testing::write_documents(folder, name, std::vector<std::vector<std::int32_t>>(40, {7}));
  folder.write(name + ".json", R"({"format":"weft tokens","version":1,"tokens":40,"ignored":)" + ignored + "}");
  return path;
}

struct NothingLearnt {
  std::function<void(const testing::TemporaryFolder&, RunConfig&)> make;
  const char* named;
};

// Data and configurations whose steps would learn nothing, or whose sequences can't be cut.
TEST(RunInputs, RefuseWhatTeachesNothing) {
  using Folder = testing::TemporaryFolder;
  const std::vector<NothingLearnt> cases = {
      {[](const Folder& f, RunConfig& c) { c.data = write_ignored(f, "x.bin", "[[0,40]]"); }, "no completion"},
      {[](const Folder& f, RunConfig& c) { c.data = write_ignored(f, "x.bin", "[[0,9],[9,40]]"); }, "no completion"},
      // What the first token would be a target of doesn't exist.
      {[](const Folder& f, RunConfig& c) {
         c.data = write_ignored(f, "x.bin", "[[1,40]]");
         c.val_data = c.data;
       },
       "no completion"},
      {[](const Folder& f, RunConfig& c) {
         c.val_data = write_ignored(f, "v.bin", "[[0,40]]"), c.data = write_ignored(f, "x.bin", "[]");
       },
       "held-out tokens"},
      {[](const Folder& f, RunConfig& c) {
         c.data = write_ignored(f, "x.bin", "[]");
         c.val_data = write_ignored(f, "v.bin", "[[1,40]]");
       },
       "held-out tokens"},
      {[](const Folder& f, RunConfig& c) {
         c.data = write_ignored(f, "x.bin", "[]");
         c.val_data = write_ignored(f, "v.bin", "[[0,30]]");
         c.eval_sequences = 1;
       },
       "--eval-sequences"},
      {[](const Folder& f, RunConfig& c) { c.data = f.write("s.txt", "weft"); }, "tokens to train on"},
      {[](const Folder&, RunConfig& c) { c.seq_len = 17; }, "seq-len = 17"},
      {[](const Folder&, RunConfig& c) {
         c.goldfish = Goldfish{4, 17};
       },
       "goldfish"},
      {[](const Folder& f, RunConfig& c) {
         c.data = write_ignored(f, "bare.bin", "[]");
         std::filesystem::remove(c.data.paths().front() + ".json");
         c.packing = Packing::documents;
       },
       "has no description"},
      {[](const Folder& f, RunConfig& c) {
         c.data = write_ignored(f, "bare.bin", "[]");
         std::filesystem::remove(c.data.paths().front() + ".json");
         c.document_mask = true;
       },
       "has no description"},
      {[](const Folder&, RunConfig& c) { c.val_split = ValSplit::documents; }, "is one document"},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const testing::TemporaryFolder folder;
    RunConfig config = testing::tiny_run(folder, ops::Family::gpt2);
    cases[i].make(folder, config);
    std::string refused;
    testing::on_ranks(1, [&](comm::World& world) {
      refused = testing::message_of<UserError>([&] {
        fill_in(config, 0);
        const RunInputs inputs = find_run_inputs(world, config);
        const BatchPlan plan(inputs.source.train.size(), config.seq_len, config.seed, inputs.cut);
        const EvalBatches held_out(inputs.source.held_out, config.seq_len, {0, 1, 1, 1}, config.eval_sequences);
      });
    });
    EXPECT_TRUE(has_parts(refused, {cases[i].named})) << i << ": " << refused;
  }
}

TEST_F(RunInputsOfTwo, EqualCopiesPass) {
  const std::vector<Found> found = find(kAsItIs);
  for (const Found& of : found) {
    EXPECT_EQ(of.refusal, "");
    EXPECT_EQ(of.inputs.first_step, 0);
    EXPECT_FALSE(of.inputs.resume_from.has_value());
  }
}

TEST_F(RunInputsOfTwo, DataMayNotDiffer) {
  std::string text = testing::tiny_text();
  text[text.size() / 2] ^= 1;
  folder_.write("1/text.txt", text);
  expect_refused(kAsItIs, {"rank 1 has data digest = ", ", rank 0 has data digest = "});
  folder_.write("1/text.txt", testing::tiny_text() + testing::tiny_text());
  expect_refused(kAsItIs, {"rank 1 has tokens to train on = ", "rank 0 has tokens to train on = "});
}

TEST_F(RunInputsOfTwo, WhatOneRankCannotFindAllRefuse) {
  std::filesystem::remove(path(1, "text.txt"));
  expect_refused(kAsItIs, {"rank 1: '" + path(1, "text.txt") + "' doesn't exist"});
}

TEST_F(RunInputsOfTwo, CheckpointsAreTheSame) {
  train(0, 2);
  expect_refused(kResume, {"rank 1 has checkpoint = none, rank 0 has checkpoint = step_00000002"});
  train(1, 1);
  expect_refused(kResume, {"rank 1 has checkpoint = step_00000001, rank 0 has checkpoint = step_00000002"});
  std::filesystem::remove_all(path(1, "run"));
  train(1, 2, 43);
  expect_refused(kResume, {"rank 1 has manifest digest = ", ", rank 0 has manifest digest = "});
  std::filesystem::remove_all(path(1, "run"));
  std::filesystem::copy(path(0, "run"), path(1, "run"), std::filesystem::copy_options::recursive);
  const std::vector<Found> found = find(kResume);
  for (const Found& of : found) {
    EXPECT_EQ(of.refusal, "");
    EXPECT_EQ(of.inputs.first_step, 2);
    EXPECT_EQ(of.inputs.share.ranks, 1);  // each has its own copy to read
  }
}

TEST_F(RunInputsOfTwo, WeightsAreTheSame) {
  train(0, 1);
  const std::filesystem::path checkpoint = checkpoint_path(path(0, "run"), 1);
  for (int rank = 0; rank < 2; ++rank) {
    std::filesystem::create_directory(path(rank, "hf"));
    std::filesystem::copy(checkpoint / "model.safetensors", path(rank, "hf/model.safetensors"));
  }
  const auto from = [&](const std::string& name) {
    return [this, name](RunConfig& config, int rank) { config.init_from = path(rank, name); };
  };
  EXPECT_EQ(find(from("hf"))[1].refusal, "");
  // The last byte of the last tensor.
  std::string bytes = testing::TemporaryFolder::read(path(1, "hf/model.safetensors"));
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  folder_.write("1/hf/model.safetensors", bytes);
  expect_refused(from("hf"), {"rank 1 has digest of weights = ", ", rank 0 has digest of weights = "});
  bytes.pop_back();
  folder_.write("1/hf/model.safetensors", bytes);
  expect_refused(from("hf"), {"rank 1 has bytes of weights = "});
  // A run's weights come from its newest checkpoint.
  expect_refused(from("run"), {"rank 1 has checkpoint = none, rank 0 has checkpoint = step_00000001"});
}

TEST_F(RunInputsOfTwo, TheRunsNewestCheckpointIsLoadedEvenIfANewerOneComes) {
  train(0, 1);
  const auto from_run = [&](RunConfig& config, int) { config.init_from = path(0, "run"); };
  EXPECT_EQ(find(from_run)[0].inputs.init_from, checkpoint_path(path(0, "run"), 1));
}

}  // namespace
}  // namespace weft::train
