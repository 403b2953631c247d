// A run that goes on as another run is refused by the key that differs, unless that is accepted; and the position in
// the data is that of its tokens.
#include "train/run/resumed_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/base/messages.h"
#include "tests/train/data/written_tokens.h"
#include "tests/train/tiny_run.h"
#include "text/bpe/bpe_trainer.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/run/run_inputs.h"

namespace weft::train {
namespace {

namespace fs = std::filesystem;

std::string words_of(const std::string& word) {
  std::string text;
  while (text.size() < 800) text += word;
  return text;
}

class ResumedRun : public ::testing::Test {
 protected:
  ResumedRun() {
    for (const char* name : {"b", "c", "d"}) folder_.write(std::string("texts/") + name + ".txt", words_of(name));
    config_.data = folder_.path("texts").string();
    config_.steps = 2;
  }
  /// The inputs of the run that goes on, or the refusal.
  std::string resumed(RunConfig config) {
    config.resume = config_.run_dir;
    std::string refusal;
    testing::on_ranks(1, [&](comm::World& world) {
      refusal = testing::message_of<UserError>([&] {
        fill_in(config, 0);
        inputs_ = find_run_inputs(world, config);
      });
    });
    return refusal;
  }

  const testing::TemporaryFolder folder_;
  RunConfig config_ = testing::tiny_run(folder_, ops::Family::gpt2);
  RunInputs inputs_;
};

struct Change {
  const char* name;
  std::function<void(const testing::TemporaryFolder&, RunConfig&)> make;
  std::vector<std::string> keys;  // that accept it
  const char* part;               // of the refusal
};

std::vector<Change> changes() {
  using Folder = testing::TemporaryFolder;
  return {
      {"a byte is another",
       [](const Folder& folder, RunConfig&) { folder.write("texts/c.txt", words_of("C")); },
       {"data"},
       "the data changed"},
      {"a file is shorter",
       [](const Folder& folder, RunConfig&) { folder.write("texts/d.txt", words_of("d").substr(9)); },
       {"data"},
       "the data changed"},
      {"the last file is longer",
       [](const Folder& folder, RunConfig&) { folder.write("texts/d.txt", words_of("d") + "e"); },
       {"data"},
       "grew at its end"},
      {"the first file is longer",
       [](const Folder& folder, RunConfig&) { folder.write("texts/b.txt", words_of("b") + "e"); },
       {"data"},
       "the data changed"},
      {"a file comes before",
       [](const Folder& folder, RunConfig&) { folder.write("texts/a.txt", words_of("a")); },
       {"data"},
       "the data changed"},
      {"a file comes behind",
       [](const Folder& folder, RunConfig&) { folder.write("texts/e.txt", words_of("e")); },
       {"data"},
       "grew at its end"},
      {"a file is gone",
       [](const Folder& folder, RunConfig&) { fs::remove(folder.path("texts/b.txt")); },
       {"data"},
       "the data changed"},
      {"files change places",
       [](const Folder& folder, RunConfig&) { fs::rename(folder.path("texts/b.txt"), folder.path("texts/e.txt")); },
       {"data"},
       "the data changed"},
      {"held-out texts that were trained on",
       [](const Folder& folder, RunConfig& config) { config.val_data = folder.path("texts/b.txt").string(); },
       {"val-data"},
       "held-out files"},
      {"a name that is held out",
       [](const Folder& folder, RunConfig&) { fs::rename(folder.path("texts/d.txt"), folder.path("texts/d_val.txt")); },
       {"data", "val-data"},
       "held-out files"},
      {"another split",
       [](const Folder&, RunConfig& config) { config.val_split = ValSplit::documents; },
       {"val-split"},
       "other tokens of the same files"},
      {"shorter sequences",
       [](const Folder&, RunConfig& config) { config.seq_len = 8; },
       {"seq-len"},
       "seq-len = 8, before 16"},
      {"other sequences",
       [](const Folder&, RunConfig& config) { config.packing = Packing::documents; },
       {"packing"},
       "packing = documents, before wrapped"},
      {"two differences",
       [](const Folder& folder, RunConfig& config) {
         folder.write("texts/c.txt", words_of("C"));
         config.val_split = ValSplit::documents;
       },
       {"data", "val-split"},
       "val-split = documents, before tail"}};
}

TEST_F(ResumedRun, RefusesWhatMakesAnotherRunUnlessItIsAccepted) {
  testing::train_run(config_);
  EXPECT_EQ(resumed(config_), "");
  fs::copy(folder_.path("texts"), folder_.path("kept"));
  for (const Change& change : changes()) {
    SCOPED_TRACE(change.name);
    RunConfig config = config_;
    change.make(folder_, config);
    const std::string refusal = resumed(config);
    EXPECT_TRUE(has_parts(refusal, {change.part, "until step 2"}));
    for (const std::string& key : change.keys) {
      EXPECT_TRUE(has_parts(refusal, {"--accept " + key}));
      EXPECT_NE(resumed(config), "") << "not all of them accepted";
      config.accepted.insert(key);
    }
    EXPECT_EQ(resumed(config), "");
    EXPECT_EQ(inputs_.tokens_seen, 2U * 8 * 16);
    fs::remove_all(folder_.path("texts"));
    fs::copy(folder_.path("kept"), folder_.path("texts"));
  }
}

// Equal ids of which others are learnt.
TEST_F(ResumedRun, SeesWhatIsLearnt) {
  const std::vector<std::vector<std::int32_t>> documents(20, std::vector<std::int32_t>(20, 7));
  config_.data = testing::write_documents(folder_, "x.bin", documents, 2);
  testing::train_run(config_);
  EXPECT_EQ(resumed(config_), "");
  testing::write_documents(folder_, "x.bin", documents, 3);
  EXPECT_TRUE(has_parts(resumed(config_), {"the data changed", "--accept data"}));
  std::vector<std::vector<std::int32_t>> more = documents;
  more.emplace_back(5, 8);
  testing::write_documents(folder_, "x.bin", more, 2);
  EXPECT_TRUE(has_parts(resumed(config_), {"grew at its end"}));
}

// Before the digests: keys alone are compared, with one note, and the next checkpoint has them.
TEST_F(ResumedRun, TakesCheckpointsWithoutDigests) {
  testing::train_run(config_);
  const fs::path checkpoint = checkpoint_path(config_.run_dir, 2);
  Manifest manifest = read_manifest(checkpoint);
  ASSERT_TRUE(manifest.info.data.has_value());
  EXPECT_EQ(manifest.info.tokenizer_digest, text::ByteTokenizer().facts().digest);
  manifest.info.data.reset();
  manifest.info.tokenizer_digest.reset();
  folder_.write(fs::relative(checkpoint / kManifestFile, folder_.path()).string(), to_json(manifest));
  folder_.write("texts/c.txt", words_of("C"));
  EXPECT_EQ(resumed(config_), "");
  const auto of_digests = [](const std::string& note) { return testing::contains(note, "no digests"); };
  EXPECT_EQ(std::ranges::count_if(inputs_.source.notes, of_digests), 1);
  RunConfig split = config_;
  split.val_split = ValSplit::documents;
  EXPECT_TRUE(has_parts(resumed(split), {"val-split = documents, before tail"}));
  config_.resume = "auto";
  config_.steps = 3;
  testing::train_run(config_);
  EXPECT_EQ(read_manifest(checkpoint_path(config_.run_dir, 3)).info.data, inputs_.source.mark);
}

// Before windows were padded: a run keeps those with which it began, and its checkpoints say so.
TEST_F(ResumedRun, ReadsTheWindowsWithWhichItBegan) {
  config_.data = folder_.path("text.txt").string();
  config_.lr = 0;
  testing::train_run(config_);
  const fs::path checkpoint = checkpoint_path(config_.run_dir, 2);
  Manifest manifest = read_manifest(checkpoint);
  EXPECT_TRUE(manifest.info.padded);
  EXPECT_EQ(resumed(config_), "");
  EXPECT_EQ(inputs_.cut, BatchPlan::Cut::padded);
  RunConfig padded = config_;
  padded.run_dir = folder_.path("padded").string();
  padded.steps = 3;
  testing::train_run(padded);

  manifest.info.padded = false;
  folder_.write(fs::relative(checkpoint / kManifestFile, folder_.path()).string(), to_json(manifest));
  EXPECT_EQ(resumed(config_), "");
  EXPECT_EQ(inputs_.cut, BatchPlan::Cut::whole);
  config_.resume = "auto";
  config_.steps = 3;
  testing::train_run(config_);
  EXPECT_FALSE(read_manifest(checkpoint_path(config_.run_dir, 3)).info.padded);
  const std::vector<double> loss = testing::metric(config_.run_dir, "loss");
  const std::vector<double> others = testing::metric(padded.run_dir, "loss");
  ASSERT_EQ(loss.size(), 3U);
  EXPECT_EQ(loss[1], others[1]);
  EXPECT_NE(loss[2], others[2]);
}

// With a learning rate of 0 the loss of a step is the mean of its sequences' losses.
TEST_F(ResumedRun, AnotherBatchGoesOnAtTheSameToken) {
  config_.data = folder_.path("text.txt").string();
  config_.lr = 0;
  config_.weight_decay = 0;
  config_.dropout = 0;
  config_.micro_batch = 0;
  config_.global_batch = 4;
  config_.steps = 16;
  RunConfig all = config_;
  all.run_dir = folder_.path("all").string();
  testing::train_run(all);
  const std::vector<double> single = testing::metric(all.run_dir, "loss");

  config_.steps = 5;
  testing::train_run(config_);
  config_.resume = "auto";
  config_.global_batch = 8;
  config_.steps = 8;
  testing::train_run(config_);
  config_.global_batch = 4;
  config_.steps = 10;
  testing::train_run(config_);
  const std::vector<double> loss = testing::metric(config_.run_dir, "loss");
  const std::vector<double> seen = testing::metric(config_.run_dir, "tokens_seen");
  ASSERT_EQ(loss.size(), 10U);
  std::size_t next = 0;
  for (std::size_t step = 0; step < loss.size(); ++step) {
    const std::size_t batches = step >= 5 && step < 8 ? 2 : 1;
    double expected = 0;
    for (std::size_t i = 0; i < batches; ++i) expected += single[next++] / static_cast<double>(batches);
    EXPECT_NEAR(loss[step], expected, 1e-5) << step;
    EXPECT_EQ(seen[step], static_cast<double>(next * 4 * 16)) << step;
  }
  EXPECT_EQ(read_manifest(checkpoint_path(config_.run_dir, 10)).info.tokens_seen, next * 4 * 16);
}

TEST_F(ResumedRun, AnotherTokenizerOfTheSameSizeIsRefused) {
  const auto learn = [&](const std::string& name, const std::string& word) {
    const text::TrainedBpe trained = text::train_bpe({{word, 2}}, 257, [](std::size_t) {});
    return folder_.write(name + "/tokenizer.json", text::tokenizer_json_of(trained, *text::lexer_named("gpt2")));
  };
  const std::string one = learn("one", "bb"), other = learn("other", "cc"), same = learn("same", "bb");
  config_.model.vocab = 258;
  config_.tokenizer = one;
  testing::train_run(config_);
  EXPECT_EQ(resumed(config_), "");
  config_.tokenizer = same;
  EXPECT_EQ(resumed(config_), "");
  config_.tokenizer = other;
  EXPECT_TRUE(has_parts(resumed(config_), {"the tokenizer '" + other, "0x", "--accept tokenizer"}));
  // Then all ids are others.
  config_.accepted.insert("tokenizer");
  EXPECT_TRUE(has_parts(resumed(config_), {"the data changed"}));
  config_.accepted.insert("data");
  EXPECT_EQ(resumed(config_), "");
  EXPECT_EQ(inputs_.tokenizer->facts().digest, text::load_tokenizer(other)->facts().digest);
  fs::remove_all(folder_.path("one"));
  config_.tokenizer = one;  // the checkpoint has it
  EXPECT_EQ(resumed(config_), "");
}

}  // namespace
}  // namespace weft::train
