// TOML files: layers of name and sizes, and refusals that name the line.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "train/config/config.h"

namespace weft::train {
namespace {

TEST(ConfigToml, ReadsKeysAndSizes) {
  RunConfig config;
  load_toml_text(config, R"(
steps = 12
lr = 1          # an integer is a number too
data = "a.txt"
grid = "data=2"

[model]
kv_heads = 4
layers = 3
name = "llama-tiny"
)",
                 "run.toml");
  EXPECT_EQ(config.steps, 12);
  EXPECT_EQ(config.lr, 1.0);
  EXPECT_EQ(config.data, "a.txt");
  EXPECT_EQ(config.grid.data, 2);
  EXPECT_EQ(config.model.family, ops::Family::llama);
  EXPECT_EQ(config.model.layers, 3);
  EXPECT_EQ(config.model.kv_heads, 4);
}

TEST(ConfigToml, PathsMayBeAList) {
  RunConfig config;
  load_toml_text(config, "data = [\"a.txt\", \"more/*.txt\"]\nval-data = [\"v.txt\"]\n", "run.toml");
  EXPECT_EQ(config.data.paths(), (std::vector<std::string>{"a.txt", "more/*.txt"}));
  EXPECT_EQ(config.val_data, "v.txt");
  EXPECT_TRUE(testing::contains(dump_toml(config), "data = [\"a.txt\", \"more/*.txt\"]\nval-data = \"v.txt\"\n"));
  load_toml_text(config, "data = []\n", "run.toml");
  EXPECT_TRUE(config.data.empty());
  EXPECT_TRUE(testing::contains(dump_toml(config), "data = \"\"\n"));
  // A text is one path, whatever it looks like.
  load_toml_text(config, "data = '[\"a\", \"b\"]'\n", "run.toml");
  EXPECT_EQ(config.data, "[\"a\", \"b\"]");
  RunConfig back;
  load_toml_text(back, dump_toml(config), "run.toml");
  EXPECT_EQ(back.data, config.data);
}

TEST(ConfigToml, LaterLayersOverride) {
  RunConfig config;
  load_toml_text(config, "steps = 12\nlr = 0.5\nmodel = \"gpt2-124m\"\n", "run.toml");
  apply_settings(config, {{"steps", "3", "--steps"}, {"steps", "5", "--set"}});
  EXPECT_EQ(config.steps, 5);
  EXPECT_EQ(config.lr, 0.5);
  EXPECT_EQ(config.model_name, "gpt2-124m");
  EXPECT_EQ(config.model.layers, 12);
}

// Older builds wrote every key into the configurations that they stored.
TEST(ConfigToml, AFormerKeyIsReadWhereItDidNothing) {
  RunConfig config;
  load_toml_text(config, "eval-batches = 0\neval_batches = 0\nsteps = 7\n", "run.toml");
  EXPECT_EQ(config.steps, 7);
  EXPECT_EQ(config.eval_sequences, RunConfig().eval_sequences);
  // If the replacement is set anyway, the stored text needs no change.
  load_toml_text(config, "eval-batches = 4\n", "run.toml", std::vector<Setting>{{"eval_sequences", "8", "--set"}});
  EXPECT_EQ(config.eval_sequences, RunConfig().eval_sequences);
}

TEST(ConfigToml, RefusalsNameTheLine) {
  for (const auto& [toml, parts] : std::vector<std::pair<const char*, std::vector<std::string_view>>>{
           {"steps = 3\nsteqs = 4\n", {"run.toml line 2: unknown key \"steqs\"", "did you mean steps?"}},
           {"[model]\nlayer = 2\n", {"did you mean model.layers?"}},
           {"\nsteps = \"3\"\n", {"run.toml line 2: steps is \"3\"; expected integer"}},
           {"steps = 2.5\n", {"line 1: steps is 2.5; expected integer"}},
           {"dtype = 32\n", {"line 1: dtype is 32; expected fp32|bf16"}},
           {"tokenizer = [\"a\"]\n", {"line 1: tokenizer is [\"a\"]; expected text"}},
           {"data = 3\n", {"line 1: data is 3; expected text, or a list of texts"}},
           {"data = [\"a\", 3]\n", {"line 1: data[1] is 3"}},
           {"data = [\"a\", \"\"]\n", {"line 1: data[1] is \"\"; expected a path"}},
           {"[model]\ntied = 1\n", {"line 2: model.tied is 1; expected true or false"}},
           {"lr = -1.0\n", {"run.toml line 1: lr = -1 is out of range"}},
           {"[train]\nsteps = 3\n", {"run.toml line 1: unknown table [train]"}},
           {"steps = 3\nlr == 1\n", {"run.toml line 2: "}},
           {"model = \"tiny\"\n[model]\nlayers = 2\n", {"run.toml line 2: "}},
           {"eval-batches = \"0\"\n", {"eval-batches"}},
           {"steps = 3\neval-batches = 4\n", {"run.toml line 2: eval-batches", "set eval-sequences"}}}) {
    RunConfig config;
    EXPECT_TRUE(refuses([&, text = toml] { load_toml_text(config, text, "run.toml"); }, parts)) << toml;
    EXPECT_EQ(config.steps, RunConfig{}.steps) << "changed by " << toml;
  }
}

TEST(ConfigToml, RefusesWhatIsNoConfigurationBySize) {
  RunConfig config;
  EXPECT_THROW(load_toml_text(config, std::string(64 * 1024 + 1, '#'), "large.toml"), UserError);
  EXPECT_NO_THROW(load_toml_text(config, std::string(64 * 1024, '#'), "large.toml"));
  EXPECT_THROW(load_toml(config, "/dev/zero"), UserError);  // endless
  EXPECT_THROW(load_toml(config, "/dev/null"), UserError);
  EXPECT_THROW(load_toml(config, "/"), UserError);
}

TEST(ConfigToml, RefusesDeepNesting) {
  RunConfig config;
  std::string dotted = "a";
  for (int i = 0; i < 30'000; ++i) dotted += ".a";
  EXPECT_THROW(load_toml_text(config, dotted + " = 1\n", "deep.toml"), UserError);
  EXPECT_THROW(load_toml_text(config, "a = " + std::string(30'000, '[') + "\n", "deep.toml"), UserError);
}

TEST(ConfigToml, AFileOrARunsFolderIsRead) {
  const testing::TemporaryFolder folder;
  RunConfig config;
  EXPECT_THROW(load_toml(config, folder.path("config.toml").string()), UserError);
  EXPECT_TRUE(refuses([&] { load_toml(config, folder.path().string()); }, {"is a folder"}));
  const std::string file = folder.write("config.toml", "steps = 77\n");
  for (const std::string& path : {file, folder.path().string()}) {
    RunConfig read;
    load_toml(read, path);
    EXPECT_EQ(read.steps, 77);
  }
  folder.write("config.toml", "steps = many\n");
  EXPECT_TRUE(refuses([&] { load_toml(config, folder.path().string()); }, {file}));
}

// A single style for everything that is on or off, whatever words its own values have.
TEST(ConfigToml, SwitchesTakeBothPairsOfWords) {
  for (const char* on : {"zero-1 = true\nfuse-gelu = true\n", "zero-1 = true\nfuse-gelu = \"on\"\n"}) {
    RunConfig config;
    load_toml_text(config, on, "switches");
    EXPECT_TRUE(config.zero1 && config.fuse_gelu) << on;
  }
  for (const char* key : {"zero-1", "fuse-gelu"}) {
    RunConfig config;
    set_key(config, key, "on", "--set");
    EXPECT_TRUE(config.zero1 != config.fuse_gelu) << key;
    set_key(config, key, "false", "--set");
    EXPECT_FALSE(config.zero1 || config.fuse_gelu) << key;
    EXPECT_THROW(set_key(config, key, "yes", "--set"), UserError);
  }
  RunConfig config;
  load_toml_text(config, "pack-weights = false\n", "switches");
  EXPECT_EQ(config.pack_weights, WeightPacking::off);
  EXPECT_THROW(load_toml_text(config, "schedule = true\n", "switches"), UserError);
}

}  // namespace
}  // namespace weft::train
