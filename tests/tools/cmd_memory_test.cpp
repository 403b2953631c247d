// `weft memory` as a process: its rows agree with one another and with a dry run of the same grid.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/tools/weft_folder.h"

namespace weft::tools {
namespace {

using nlohmann::json;

class MemoryCommand : public testing::WeftFolder {
 protected:
  static Words words_of(const std::string& command, const Words& more) {
    return testing::joined({command, "--model", "tiny", "--model.layers", "2", "--global-batch", "8"}, more);
  }
  testing::CommandResult weft(const std::string& command, const Words& more) const {
    return run(words_of(command, more));
  }
  json rows(const Words& more) const { return object_of(words_of("memory", more)).at("grids"); }
  json row(const Words& more) const {
    const json all = rows(more);
    EXPECT_EQ(all.size(), 1U);
    return all.at(0);
  }
  static std::int64_t bytes(const json& row, const char* role) {
    return row.at("memory_bytes").at(role).get<std::int64_t>();
  }
  static double sent(const json& row, const char* group) {
    return row.at("sent_bytes").contains(group) ? row.at("sent_bytes").at(group).get<double>() : 0;
  }
};

TEST_F(MemoryCommand, JsonOfAllGridsOfFourRanks) {
  const json all = rows({"--ranks", "4"});
  EXPECT_EQ(all.size(), 10U);  // 4 and 2·2 on four axes; tiny's sizes are powers of two
  std::int64_t before = 0;
  for (const json& row : all) {
    SCOPED_TRACE(row.at("grid"));
    EXPECT_EQ(row.at("ranks"), 4);
    EXPECT_GE(bytes(row, "total"), before) << "the first rows need the least";
    before = bytes(row, "total");
    std::int64_t state = 0;
    for (const char* role : {"parameter", "optimizer_state", "input", "scalar", "cache"}) state += bytes(row, role);
    EXPECT_EQ(bytes(row, "total"), state + bytes(row, "scratch"));
    const auto size = [&](const std::string& axis) {
      const std::string grid = row.at("grid");
      return grid.at(grid.find(axis + "=") + axis.size() + 1) - '0';
    };
    EXPECT_EQ(sent(row, "x") > 0, size("x") > 1);
    EXPECT_EQ(sent(row, "y") > 0, size("y") > 1);
    EXPECT_EQ(sent(row, "z_gather") > 0, size("z") > 1);
    EXPECT_EQ(sent(row, "z_scatter") > 0, size("z") > 1);
    EXPECT_EQ(sent(row, "data") > 0, size("data") > 1);
    EXPECT_EQ(bytes(row, "gathered") > 0, size("z") > 1);
    EXPECT_EQ(bytes(row, "optimizer_state"), 2 * bytes(row, "parameter"));  // two fp32 moments of fp32 weights
  }
}

// The table's row of a grid equals the report of its run.
TEST_F(MemoryCommand, AgreesWithTheDryRunOfEachGrid) {
  for (const std::string grid : {"x=2,y=2", "z=2,data=2", "x=2,z=2", "z=2,context=2"}) {
    SCOPED_TRACE(grid);
    const Words flags = {"--zero-1", "true", "--reduce-dtype", "bf16"};
    const json found = row(testing::joined({"--grids", grid}, flags));
    const json run = object_of(words_of("train", testing::joined({"--grid", grid, "--dry-run"}, flags)));
    EXPECT_EQ(found.at("grid"), run.at("grid"));
    EXPECT_EQ(bytes(found, "scratch"), run.at("plans").at("train").at("scratch_bytes"));
    for (const char* role : {"parameter", "gradient", "optimizer_state", "gathered", "workspace"}) {
      EXPECT_EQ(found.at("memory_bytes").at(role), run.at("memory_bytes").at(role)) << role;
    }
    std::map<std::string, double> expected;
    for (const json& part : run.at("communication")) {
      expected[part.at("group").get<std::string>()] += part.at("sent_bytes").get<double>();
    }
    for (const auto& [group, bytes] : expected) EXPECT_DOUBLE_EQ(sent(found, group.c_str()), bytes) << group;
    EXPECT_EQ(found.at("sent_bytes").size(), expected.size());
  }
}

// On a GPU attention takes cuDNN's workspace, where that runs and within its limit, once on each compute stream.
TEST_F(MemoryCommand, AttentionOnAGpuTakesWorkspace) {
  constexpr std::int64_t kBatch = 2, kHeads = 4, kSeq = 256, kHeadDim = 64;
  constexpr std::int64_t kSums = kBatch * kHeads * kSeq * 4, kScores = 256 + 2 * kBatch * kHeads * kSeq * kSeq;
  const auto on_gpu = [&](const Words& more) {
    const Words words = testing::words_in(fmt::format(
        "--device cuda --dtype bf16 --model.family llama --model.hidden {} --model.heads {} --model.context {} "
        "--seq-len {} --micro-batch {} --ranks 1",
        kHeads * kHeadDim, kHeads, kSeq, kSeq, kBatch));
    return row(testing::joined(words, more));
  };
  const json all = on_gpu({"--model.kv-heads", "4"});
  EXPECT_EQ(bytes(all, "attention"), kSums + kScores);
  const json without = on_gpu({"--model.kv-heads", "4", "--attention-workspace", "1B"});
  EXPECT_EQ(bytes(all, "total"), bytes(without, "total") + kScores);
  EXPECT_EQ(bytes(on_gpu({"--model.kv-heads", "2"}), "attention"),
            kSums + kScores + 2 * 2 * kBatch * kHeads * kSeq * kHeadDim);
  EXPECT_EQ(bytes(on_gpu({"--model.kv-heads", "4", "--dtype", "fp32"}), "attention"), kSums);
  EXPECT_EQ(bytes(on_gpu({"--model.kv-heads", "4", "--model.window", "100"}), "attention"), kSums);
  EXPECT_EQ(bytes(on_gpu({"--model.kv-heads", "4", "--device", "cpu"}), "attention"), 0);
  const auto limited = [&](std::int64_t workspace) {
    return bytes(on_gpu({"--model.kv-heads", "4", "--attention-workspace", std::to_string(workspace)}), "attention");
  };
  EXPECT_EQ(limited(kScores), kSums + kScores);
  EXPECT_EQ(limited(kScores - 1), kSums);
}

// Between GPUs exchanged rows go in segments for any choice: to send and to receive, once for all exchanges.
TEST_F(MemoryCommand, RowsThatGpusExchangeTakeSegments) {
  constexpr std::int64_t kTokens = 2 * 64, kChoices = 2, kHidden = 64;
  const auto of = [&](const Words& more) {
    const Words words =
        testing::words_in(fmt::format("--device cuda --model moe-tiny --model.hidden {} --model.heads 4 "
                                      "--model.kv-heads 4 --model.ffn 96 --seq-len 64 "
                                      "--global-batch 8 --micro-batch 2",
                                      kHidden));
    return row(testing::joined(words, more));
  };
  const auto segments = [&](const Words& more) { return bytes(of(more), "row_segments"); };
  EXPECT_EQ(segments({"--grids", "z=2,expert=2"}), 2 * 2 * kTokens * kChoices * kHidden * 4);
  EXPECT_EQ(segments({"--grids", "z=4,expert=4", "--dtype", "bf16"}), 2 * 4 * kTokens * kChoices * kHidden * 2);
  EXPECT_EQ(segments({"--grids", "z=2"}), 0);
  EXPECT_EQ(segments({"--grids", "z=2,expert=2", "--device", "cpu"}), 0);
  EXPECT_EQ(segments({"--grids", "z=2,expert=2", "--communicator", "staged"}), 0);
  const json with = of({"--grids", "z=2,expert=2"});
  const json without = of({"--grids", "z=2,expert=2", "--communicator", "local"});
  EXPECT_EQ(bytes(with, "total"), bytes(without, "total") + bytes(with, "row_segments"));
}

// A run with adapters takes what was planned for it, far less than one that trains every weight.
TEST_F(MemoryCommand, RunsWithAdaptersTakeWhatWasPlanned) {
  constexpr std::int64_t kBesidePlan = 48 << 20;  // bytes: code, threads, buffers of files
  const Words model = testing::words_in("--model.hidden 512 --model.layers 4 --micro-batch 1 --global-batch 1");
  const std::vector<std::string> lora = {"--lora", "rank=4"};
  const std::int64_t all_weights = bytes(row(testing::joined(model, {"--ranks", "1"})), "total");
  const std::int64_t planned = bytes(row(testing::joined(model, testing::joined(lora, {"--ranks", "1"}))), "total");
  EXPECT_LT(planned + kBesidePlan, all_weights);
  const std::vector<std::string> train = {"--steps", "2", "--eval-sequences", "1", "--seq-len", "64"};
  testing::succeeded(weft("train", testing::joined(model, testing::joined(train, {"--run-dir", "base"}))));
  const testing::CommandResult adapted = testing::succeeded(
      weft("train",
           testing::joined(model, testing::joined(train, testing::joined(lora, {"--run-dir", "adapted", "--init-from",
                                                                                "base", "--json"})))));
  const json result = json::parse(adapted.output.substr(adapted.output.rfind("\n{") + 1));
  const auto used = result.at("program_memory_bytes").get<std::int64_t>();
  const auto of_run = result.at("planned_memory_bytes").get<std::int64_t>();
  EXPECT_LE(used, of_run + kBesidePlan);
  EXPECT_GE(used, of_run / 2) << "untouched pages of the arena take nothing";
}

// Grouped products, their scratch and exchanged rows are in the plan; pages that no row reached take nothing.
TEST_F(MemoryCommand, RunsWithExpertsTakeWhatWasPlanned) {
  constexpr std::int64_t kBesidePlan = 32 << 20;  // bytes: code, threads, small allocations
  for (const char* grid : {"data=1", "z=2,expert=2"}) {
    const Words words = testing::words_in(fmt::format(
        "--model moe-tiny --model.hidden 512 --model.layers 2 --model.ffn 1024 --seq-len 64 --global-batch 2 "
        "--micro-batch 1 --steps 2 --eval-sequences 1 --no-save --run-dir {0} --json --grid {0}",
        grid));
    const testing::CommandResult trained = testing::succeeded(weft("train", words));
    const json result = json::parse(trained.output.substr(trained.output.rfind("\n{") + 1));
    const auto used = result.at("program_memory_bytes").get<std::int64_t>();
    const auto planned = result.at("planned_memory_bytes").get<std::int64_t>();
    EXPECT_GT(planned, 8 * kBesidePlan) << grid;
    EXPECT_LE(used, planned + kBesidePlan) << grid;
    EXPECT_GE(used, planned * 9 / 10) << grid;
  }
}

TEST_F(MemoryCommand, TheTableKeepsTheOrderOfTheGridsNamed) {
  const testing::CommandResult result = testing::succeeded(weft("memory", {"--grids", "data=4", "x=3", "x=2,y=2"}));
  EXPECT_TRUE(has_parts(result.output, {"gathered", "z_gather", "z_scatter", "MiB",
                                        "grid x=3,y=1,z=1,data=1: model.hidden = 256 does not divide by x = 3"}));
  const std::size_t data = result.output.find("x=1,y=1,z=1,data=4"), cut = result.output.find("x=2,y=2,z=1,data=1");
  ASSERT_NE(data, std::string::npos);
  ASSERT_NE(cut, std::string::npos);
  EXPECT_LT(data, cut);
  const json refused = rows({"--grids", "x=3"}).at(0);
  EXPECT_EQ(refused.at("refused"), "grid x=3,y=1,z=1,data=1: model.hidden = 256 does not divide by x = 3");
  EXPECT_FALSE(refused.contains("memory_bytes"));
}

TEST_F(MemoryCommand, MostLimitsTheRows) {
  const testing::CommandResult some = weft("memory", {"--ranks", "4", "--most", "3"});
  EXPECT_TRUE(has_parts(some.output, {"and 7 more", "--most 0 shows all"}));
  EXPECT_EQ(rows({"--ranks", "4", "--most", "3"}).size(), 3U);
  EXPECT_EQ(rows({"--ranks", "4", "--most", "0"}).size(), 10U);
  EXPECT_EQ(object_of(words_of("memory", {"--ranks", "4", "--most", "3"})).at("grids_found"), 10);
}

// Grids of far more ranks than this machine could run.
TEST_F(MemoryCommand, ComparesAnyNumberOfRanks) {
  const json found = row({"--grids", "x=2,y=2,z=4,data=64", "--global-batch", "256"});
  EXPECT_EQ(found.at("ranks"), 1024);
  EXPECT_LT(bytes(found, "parameter"), bytes(row({"--grids", "x=2,y=2"}), "parameter"));
}

// A policy decides which layers' gathered weights are kept; so does a rewrite.
TEST_F(MemoryCommand, PolicyFsdpDropsGatheredWeights) {
  // A model of four layers: of two layers, the one that runs and the one gathered ahead would be all.
  const auto of_four = [&](const Words& more) { return row(testing::joined(more, {"--model.layers", "4"})); };
  const json kept = of_four({"--grids", "z=2", "--policy", "fsdp:reshard=false"});
  const json dropped = of_four({"--grids", "z=2", "--policy", "fsdp"});
  const json first = of_four({"--grids", "z=2", "--policy", "fsdp:reshard=false", "--rewrites", "reshard=0"});
  const json by_flag = of_four({"--grids", "z=2", "--policy", "fsdp:reshard=false", "--rewrites", "reshard"});
  EXPECT_LT(bytes(dropped, "gathered"), bytes(first, "gathered"));
  EXPECT_LT(bytes(first, "gathered"), bytes(kept, "gathered"));
  EXPECT_GT(sent(dropped, "z_gather"), sent(first, "z_gather"));
  EXPECT_GT(sent(first, "z_gather"), sent(kept, "z_gather"));
  EXPECT_EQ(dropped, by_flag);
  EXPECT_EQ(sent(dropped, "z_scatter"), sent(kept, "z_scatter"));
  // Without gathers there is nothing to drop.
  EXPECT_EQ(of_four({"--grids", "x=2", "--policy", "fsdp"}),
            of_four({"--grids", "x=2", "--policy", "fsdp:reshard=false"}));
}

// torchtitan's run of Llama 3 70B on 256 H100 of 80 GB: FSDP 32, TP 8, 16 sequences of 8,192 tokens at once, all blocks
// recomputed. Published: 71.9 GiB, with Float8.
TEST_F(MemoryCommand, Llama70BOn256GpusFitsWithSequenceParallelism) {
  const auto total = [&](const char* sequence_parallel) {
    const json found = object_of({"memory",
                                  "--json",
                                  "--model",
                                  "llama-70b",
                                  "--grids",
                                  "y=8,z=32",
                                  "--global-batch",
                                  "512",
                                  "--micro-batch",
                                  "16",
                                  "--seq-len",
                                  "8192",
                                  "--dtype",
                                  "bf16",
                                  "--recompute",
                                  "block",
                                  "--policy",
                                  "fsdp",
                                  "--sequence-parallel",
                                  sequence_parallel});
    return bytes(found.at("grids").at(0), "total");
  };
  constexpr double kGiB = 1 << 30;
  EXPECT_LT(static_cast<double>(total("true")), 71.9 * kGiB);
  EXPECT_GT(static_cast<double>(total("false")), 2 * 80 * kGiB);
}

TEST_F(MemoryCommand, RefusesByName) {
  struct Bad {
    std::vector<std::string> arguments;
    const char* what;
    const char* fix;
  };
  for (const Bad& bad :
       std::vector<Bad>{{{"--grids", "x=two"}, "\"two\" is not an integer", "give a number in this range"},
                        {{"--grids", "w=2"}, "unknown axis \"w\"", "did you mean \"x\"?"},
                        {{"--policy", "fsdp:reshrad=false", "--ranks", "2"}, "reshrad", "reshard"},
                        {{"--grid", "x=2", "--ranks", "3"}, "has 2 ranks, and 3 are asked for", "leave out --grid"},
                        {{"--most", "-1"}, "--most = -1", "give a number in this range"},
                        {{"--model", "tinny"}, "unknown model 'tinny'", "--model tiny"},
                        {{"--model.heads", "7"}, "model.heads = 7", "set model.heads to one of"}}) {
    expect_refusal(words_of("memory", bad.arguments), {bad.what, bad.fix});
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

}  // namespace
}  // namespace weft::tools
