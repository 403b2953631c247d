// A manifest is read as it was written, and an invalid one is refused with its error.
#include "train/checkpoint/manifest.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "tests/base/messages.h"
#include "tests/ops/tiny_model.h"
#include "tests/train/model_arrays.h"

namespace weft::train {
namespace {

Manifest sample() {
  Manifest manifest;
  manifest.info = {
      12, 1ULL << 63, 4096, DType::bf16, testing::small_model(ops::Family::llama, false), "# \"text\"\n", {{"a", "1"}}};
  manifest.files["part.safetensors"] = {4321, "0123abcd"};
  // The lower half of the rows, and elements 8 to 16 of that block.
  manifest.shards.push_back({"part.safetensors", "w.m", "w", "m", "F32", "out, in", {8, 6}, {4, 0}, {8, 6}, 8, 16});
  manifest.shards.push_back({"part.safetensors", "b.m", "b", "m", "F32", "out", {5}, {0}, {5}, 0, 5});
  return manifest;
}

std::string refusal(const Manifest& manifest) {
  return testing::message_of<UserError>([&] { parse_manifest(to_json(manifest), "m"); });
}

std::string refusal(std::string_view from, std::string_view to) {
  std::string text = to_json(sample());
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  return testing::message_of<UserError>([&] { parse_manifest(text, "m"); });
}

TEST(Manifest, ComesBack) {
  const Manifest read = parse_manifest(to_json(sample()), "m");
  EXPECT_EQ(to_json(read), to_json(sample()));
  EXPECT_EQ(read.info.seed, 1ULL << 63);
  EXPECT_EQ(read.info.dtype, DType::bf16);
  ASSERT_EQ(read.shards.size(), 2U);
  EXPECT_EQ(read.shards[0].block_begin, (std::vector<std::uint64_t>{4, 0}));
  EXPECT_EQ(read.shards[0].range_end, 16U);
  EXPECT_FALSE(read.shards[0].whole());
  EXPECT_TRUE(read.shards[1].whole());
}

TEST(Manifest, KeepsWhatSomeModelsAddToLlama) {
  Manifest manifest;
  manifest.info.model = testing::tiny_model(testing::ModelKind::llama);
  EXPECT_EQ(to_json(manifest).find("window"), std::string::npos);
  for (const testing::ModelKind kind : testing::kEveryKind) {
    manifest.info.model = testing::tiny_model(kind);
    const ops::ModelConfig found = parse_manifest(to_json(manifest), "manifest").info.model;
    EXPECT_EQ(found.window, manifest.info.model.window);
    EXPECT_EQ(found.window_from, manifest.info.model.window_from);
    EXPECT_EQ(found.rope_scaling, manifest.info.model.rope_scaling);
    EXPECT_EQ(found.parameters(), manifest.info.model.parameters());
    for (const ops::Addition& addition : ops::additions()) {
      const auto equal = [&](auto member) { return found.*member == manifest.info.model.*member; };
      EXPECT_TRUE(std::visit(equal, addition.member)) << addition.key;
    }
  }
}

TEST(Manifest, MayTellAHeldOutLossAndTheTimeOfTheDecay) {
  Manifest manifest = sample();
  for (const char* key : {"val_loss", "decay_seconds"}) EXPECT_EQ(to_json(manifest).find(key), std::string::npos);
  manifest.info.val_loss = manifest.info.decay_seconds = 0.1 + 0.2;
  EXPECT_EQ(parse_manifest(to_json(manifest), "m").info.val_loss, 0.1 + 0.2);
  EXPECT_EQ(parse_manifest(to_json(manifest), "m").info.decay_seconds, 0.1 + 0.2);
  manifest.info.decay_seconds = std::numeric_limits<double>::infinity();
  EXPECT_THROW(parse_manifest(to_json(manifest), "m"), UserError);
}

TEST(Manifest, MayTellTheDigestsOfTokenizerAndData) {
  Manifest manifest = sample();
  for (const char* key : {"tokenizer_digest", "\"data\""}) EXPECT_EQ(to_json(manifest).find(key), std::string::npos);
  EXPECT_FALSE(parse_manifest(to_json(manifest), "m").info.data.has_value());
  manifest.info.tokenizer_digest = ~0ULL;
  manifest.info.data = DataMark{3, 1ULL << 40, 1ULL << 63, 0, 5};
  const Manifest read = parse_manifest(to_json(manifest), "m");
  EXPECT_EQ(read.info.tokenizer_digest, manifest.info.tokenizer_digest);
  EXPECT_EQ(read.info.data, manifest.info.data);
}

TEST(Manifest, MayTellThatWindowsArePadded) {
  Manifest manifest = sample();
  EXPECT_EQ(to_json(manifest).find("padded"), std::string::npos);
  EXPECT_FALSE(parse_manifest(to_json(manifest), "m").info.padded);
  manifest.info.padded = true;
  EXPECT_TRUE(parse_manifest(to_json(manifest), "m").info.padded);
}

// Of a rank that only has replicas.
TEST(Manifest, KeepsAdapters) {
  Manifest manifest;
  EXPECT_EQ(to_json(manifest).find("lora"), std::string::npos);
  EXPECT_EQ(to_json(manifest).find("base"), std::string::npos);
  manifest.info.base = "models/base";
  manifest.info.model.lora = {.rank = 3, .alpha = 0.1F, .on = ops::kLoraQkv | ops::kLoraMlp};
  EXPECT_EQ(parse_manifest(to_json(manifest), "manifest").info.model.lora, manifest.info.model.lora);
  EXPECT_EQ(parse_manifest(to_json(manifest), "manifest").info.base, "models/base");
  // As versions before single modules wrote them.
  EXPECT_TRUE(has_parts(to_json(manifest), {R"("lora":{"rank":3,"alpha":0.1,"qkv":true,"out":false,"mlp":true})"}));
  manifest.info.model.family = ops::Family::llama;
  const ops::LoraModules q_and_v = ops::only(ops::LoraModule::q) | ops::only(ops::LoraModule::v);
  for (const ops::LoraConfig& lora :
       {ops::LoraConfig{.rank = 2, .on = q_and_v}, ops::LoraConfig{.rank = 2, .rslora = true},
        ops::LoraConfig{.rank = 2, .own_rank = {1, 0, 0, 3}}, ops::LoraConfig{.rank = 2, .own_alpha = {0, 0.1F}}}) {
    manifest.info.model.lora = lora;
    EXPECT_EQ(parse_manifest(to_json(manifest), "manifest").info.model.lora, lora) << ops::to_string(lora);
  }
}

TEST(Manifest, HasALineForEachShard) {
  const std::string text = to_json(sample());
  EXPECT_TRUE(has_parts(text, {"\"step\": 12,\n", "\n{\"file\":\"part.safetensors\",\"entry\":\"w.m\"",
                               "\"global_shape\":[8,6],\"block\":[[4,8],[0,6]],\"range\":[8,16]},\n"}));
}

TEST(Manifest, ItsLengthDoesNotDependOnChecksums) {
  Manifest other = sample();
  other.files["part.safetensors"].crc32c = "00000000";
  EXPECT_EQ(to_json(other).size(), to_json(sample()).size());
}

TEST(Manifest, AnyChangeIsNoticed) {
  EXPECT_TRUE(has_parts(refusal("\"tokens_seen\": 4096", "\"tokens_seen\": 4097"), {"altered", "another checkpoint"}));
  EXPECT_EQ(refusal("\"tokens_seen\": 4096", "\"tokens_seen\":   4096"), "");  // blanks mean nothing
}

TEST(Manifest, FilesStayInTheirFolder) {
  for (const std::string name : {"../part", "a/b", "..", ".", "", "/etc/passwd"}) {
    Manifest manifest = sample();
    manifest.files[name] = {1, "00000000"};
    EXPECT_TRUE(has_parts(refusal(manifest), {"is a file '" + name + "'", "names without folders"})) << name;
  }
}

TEST(Manifest, ShardsStayInTheirTensor) {
  const auto with = [](auto change) {
    Manifest manifest = sample();
    change(manifest.shards[0]);
    return refusal(manifest);
  };
  EXPECT_TRUE(has_parts(with([](StoredShard& s) { s.block_end[0] = 9; }), {"block up to 9", "at most 8"}));
  EXPECT_TRUE(has_parts(with([](StoredShard& s) { s.block_begin[0] = 9; }), {"[9,8]", "begin ≤ end"}));
  EXPECT_TRUE(has_parts(with([](StoredShard& s) { s.range_end = 25; }), {"range up to 25", "at most 24"}));
  EXPECT_TRUE(has_parts(with([](StoredShard& s) { s.range_begin = 17; }), {"[17,16]"}));
  EXPECT_TRUE(has_parts(with([](StoredShard& s) { s.global_shape = {8}; }), {"a block of 2 dimensions", "1"}));
  EXPECT_TRUE(has_parts(with([](StoredShard& s) { s.file = "other"; }), {"file is \"other\"", "listed files"}));
  EXPECT_TRUE(has_parts(with([](StoredShard& s) { s.entry = "b.m"; }), {"'b.m' a second time"}));
  constexpr std::uint64_t kHuge = std::uint64_t{1} << 40;
  EXPECT_TRUE(has_parts(with([](StoredShard& s) {
                          s.global_shape = s.block_end = {kHuge, kHuge};
                          s.block_begin = {0, 0};
                        }),
                        {"more than 2^64 elements"}));
}

TEST(Manifest, NumbersAreCounts) {
  for (const std::string value : {"-1", "1.5", "\"12\"", "null", "18446744073709551616", "18446744073709551615"}) {
    EXPECT_TRUE(has_parts(refusal("\"step\": 12", "\"step\": " + value), {"step is"})) << value;
  }
  EXPECT_TRUE(has_parts(refusal("[8,16]", "[8,-16]"), {"shards[0].range[1] is -16"}));
  EXPECT_TRUE(has_parts(refusal("[8,16]", "[8]"), {"range is [8]", "[begin, end]"}));
  EXPECT_TRUE(has_parts(refusal("\"bytes\":4321", "\"bytes\":true"), {"files.\"part.safetensors\".bytes is true"}));
}

TEST(Manifest, OtherDocumentsAreRefused) {
  for (const std::string text : {"", "[]", "1", "{}", "{\"format\": 1}", "{\"format\": \"weft-checkpoint\"}"}) {
    EXPECT_NE(testing::message_of<UserError>([&] { parse_manifest(text, "m"); }), "") << text;
  }
  EXPECT_TRUE(has_parts(refusal("\"version\": 2", "\"version\": 1"), {"has version 1", "version 2"}));
  EXPECT_TRUE(has_parts(refusal("\"shards\"", "\"shard\""), {"m has no shards"}));
  EXPECT_TRUE(has_parts(refusal("\"bf16\"", "\"f8\""), {"dtype is \"f8\""}));
  EXPECT_TRUE(has_parts(refusal("\"heads\":4", "\"heads\":3"), {"heads"}));
  EXPECT_TRUE(has_parts(refusal("\"content\":\"m\"", "\"content\":1"), {"content is 1"}));
}

}  // namespace
}  // namespace weft::train
