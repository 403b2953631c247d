// How a layer's experts become tasks, what each rank has of them, and what it sends. (Their numbers on every grid:
// tests/train/grid_test.cpp.)
#include "ops/experts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ops/communication.h"
#include "ops/lower.h"
#include "ops/model_flops.h"
#include "tests/base/messages.h"
#include "tests/ops/tiny_model.h"

namespace weft::ops {
namespace {

using testing::ModelKind;

std::shared_ptr<const graph::Graph> lowered(const graph::Grid& grid, bool sequence_parallel = false) {
  StepConfig step = testing::tiny_step();
  step.grid = grid;
  step.sequence_parallel = sequence_parallel;
  return lower_train(testing::tiny_model(ModelKind::mixtral), step);
}

// Of the first layer's branch, without its prefix.
std::vector<std::string> tasks_of_layer(const graph::Graph& graph) {
  std::vector<std::string> names = testing::tasks_with(graph, "mb0.L0.mlp.");
  std::erase_if(names, [](const std::string& name) { return name.find(".weight.") != std::string::npos; });
  for (std::string& name : names) name.erase(0, std::string("mb0.L0.mlp.").size());
  return names;
}

TEST(ExpertTasks, OfOneRank) {
  EXPECT_EQ(tasks_of_layer(*lowered({})), (std::vector<std::string>{"router.fwd.gemm",
                                                                    "router.fwd.route",
                                                                    "router.fwd.sort",
                                                                    "router.fwd.count",
                                                                    "experts.up.fwd.gather",
                                                                    "experts.up.fwd.gemm",
                                                                    "experts.act.fwd.swiglu",
                                                                    "experts.down.fwd.gemm",
                                                                    "experts.down.fwd.combine",
                                                                    "fwd.add",
                                                                    "experts.down.bwd.combine_dx",
                                                                    "experts.down.bwd.gemm_dx",
                                                                    "experts.down.bwd.route_dx",
                                                                    "experts.down.bwd.gemm_dw",
                                                                    "experts.act.bwd.swiglu_dx",
                                                                    "experts.up.bwd.gemm_dx",
                                                                    "experts.up.bwd.combine_dx",
                                                                    "experts.up.bwd.router_dx",
                                                                    "experts.up.bwd.gather_again",
                                                                    "experts.up.bwd.gemm_dw",
                                                                    "experts.up.bwd.router_dw"}));
}

// Whatever the router chooses: rows, and so memory and arithmetic, are those of 8 tokens with two of 4 experts each.
TEST(ExpertTasks, HaveTheRowsOfAllChoices) {
  const auto graph = lowered({.y = 2});
  const auto& up = testing::operation<graph::GroupedGemm>(*graph, "mb0.L0.mlp.experts.up.fwd.gemm");
  EXPECT_EQ(std::tuple(up.rows, up.n, up.k, up.groups, up.trans_b), std::tuple(16, 2 * 12, 16, 4, true));
  const auto& dw = testing::operation<graph::GroupedGemmGradient>(*graph, "mb1.L1.mlp.experts.down.bwd.gemm_dw");
  EXPECT_EQ(std::tuple(dw.rows, dw.m, dw.n, dw.groups, dw.accumulate), std::tuple(16, 16, 12, 4, true));
}

// Counted once, whether or not the layer is computed again, and not where nothing is trained.
TEST(ExpertTasks, CountTheChoicesOfATrainingStep) {
  const ModelConfig model = testing::tiny_model(ModelKind::mixtral);
  StepConfig step = testing::tiny_step();
  for (const bool again : {false, true}) {
    step.recompute_blocks = again;
    const auto graph = lower_train(model, step);
    EXPECT_EQ(testing::count_of<graph::CountChoices>(*graph), 2 * 2);
    EXPECT_EQ(testing::count_of<graph::Route>(*graph), (again ? 2 : 1) * 2 * 2);
    EXPECT_EQ(testing::tensor_of(*graph, "mb1.L1.mlp.router.fwd.count", 3), names::of_router(1, names::kCounts));
  }
  EXPECT_EQ(testing::count_of<graph::CountChoices>(*lower_eval(model, step)), 0);
}

TEST(ExpertTasks, KeepTheChoiceInTheStateOrTakeItFromThere) {
  const ModelConfig model = testing::tiny_model(ModelKind::mixtral);
  StepConfig step = testing::tiny_step();
  const auto role_of_choice = [&](Routing routing) {
    step.routing = routing;
    const auto graph = lower_train(model, step);
    EXPECT_EQ(testing::operation<graph::Route>(*graph, "mb0.L1.mlp.router.fwd.route").given,
              routing == Routing::replayed);
    return graph->tensor(testing::task(*graph, "mb0.L1.mlp.router.fwd.route").accesses.at(1).view.tensor).role;
  };
  EXPECT_EQ(role_of_choice(Routing::free), graph::Role::activation);
  EXPECT_EQ(role_of_choice(Routing::recorded), graph::Role::scalar);
  EXPECT_EQ(role_of_choice(Routing::replayed), graph::Role::input);
}

std::vector<std::string> collectives_of_layer(const graph::Graph& graph) {
  std::vector<std::string> names = tasks_of_layer(graph);
  std::erase_if(names, [](const std::string& name) {
    return name.find("all_") == std::string::npos && name.find("scatter") == std::string::npos;
  });
  return names;
}

TEST(ExpertTasks, SumOnceOverYForwardAndBackward) {
  EXPECT_EQ(collectives_of_layer(*lowered({.y = 2})),
            (std::vector<std::string>{"experts.down.fwd.all_reduce", "experts.up.bwd.all_reduce_dx"}));
  EXPECT_EQ(collectives_of_layer(*lowered({.y = 2}, true)),
            (std::vector<std::string>{"router.fwd.all_gather_x", "experts.down.fwd.reduce_scatter",
                                      "experts.down.bwd.all_gather_dy", "experts.up.bwd.reduce_scatter_dx",
                                      "experts.up.bwd.all_gather_x"}));
}

TEST(ExpertTasks, SumOverXWhereItCutsTheInput) {
  EXPECT_EQ(collectives_of_layer(*lowered({.x = 2})),
            (std::vector<std::string>{"router.fwd.all_reduce", "experts.up.fwd.all_reduce",
                                      "experts.down.bwd.all_reduce_dx", "experts.down.bwd.all_reduce_dweights"}));
}

TEST(ExpertTasks, TheRoutersGradientIsSummedOverYOnceAStep) {
  const auto graph = lowered({.y = 2, .z = 2});
  EXPECT_EQ(testing::tasks_with(*graph, "L1.mlp.router.weight.bwd"),
            (std::vector<std::string>{"mb1.L1.mlp.router.weight.bwd.all_reduce_y",
                                      "mb1.L1.mlp.router.weight.bwd.all_reduce_z"}));
  for (const Communication& row : communication_of(*graph)) {
    EXPECT_NE(row.part, row.channel == graph::Channel::z_gather ? ModelPart::norms : ModelPart::stages);
  }
  const graph::TaskId sent = graph->find_task("mb0.L0.mlp.experts.up.bwd.all_reduce_dx");
  EXPECT_EQ(part_of(graph->task(sent)), ModelPart::linear);
}

// Experts of single ranks: rows go to them and come back, forward and backward; no weight of an expert is gathered, and
// each rank's neighbours need no sum.
TEST(ExpertTasks, ExchangeRowsWithNeighbours) {
  const auto graph = lowered({.z = 4, .expert = 2});
  std::vector<std::string> names = tasks_of_layer(*graph);
  std::erase_if(names, [](const std::string& name) {
    return name.find("exchange") == std::string::npos && name.find("all_") == std::string::npos;
  });
  EXPECT_EQ(names, (std::vector<std::string>{"router.fwd.all_gather_offsets", "experts.up.fwd.exchange",
                                             "experts.down.fwd.exchange", "experts.down.bwd.exchange_dx",
                                             "experts.up.bwd.exchange_dx"}));
  const auto& there = testing::operation<graph::ExchangeRows>(*graph, "mb0.L0.mlp.experts.up.fwd.exchange");
  EXPECT_EQ(std::tuple(there.ranks, there.count, there.rows, there.most, there.experts, there.inverse),
            std::tuple(2, 16, 16, 32, 4, false));
  EXPECT_TRUE(testing::operation<graph::ExchangeRows>(*graph, "mb0.L0.mlp.experts.down.fwd.exchange").inverse);
  const auto& up = testing::operation<graph::GroupedGemm>(*graph, "mb0.L0.mlp.experts.up.fwd.gemm");
  EXPECT_EQ(std::tuple(up.rows, up.n, up.groups, up.expected), std::tuple(32, 48, 2, 16));
  EXPECT_EQ(testing::tasks_with(*graph, "L1.mlp.experts.up.weight.bwd"),
            (std::vector<std::string>{"mb1.L1.mlp.experts.up.weight.bwd.all_reduce_copies"}));
  EXPECT_TRUE(testing::tasks_with(*lowered({.z = 2, .expert = 2}), "L1.mlp.experts.up.weight.bwd").empty());
}

TEST(ExpertTasks, LayersWithoutThemHaveAnMlp) {
  ModelConfig model = testing::tiny_model(ModelKind::qwen3_moe);
  model.dense_layers = LayerSet({1});
  const auto graph = lower_train(model, testing::tiny_step());
  EXPECT_TRUE(graph->find_task("mb0.L0.mlp.experts.up.fwd.gemm").valid());
  EXPECT_EQ(testing::operation<graph::Gemm>(*graph, "mb0.L1.mlp.up.fwd.gemm").n, 2 * 24);
  EXPECT_FALSE(graph->find_task("mb0.L1.mlp.router.fwd.route").valid());
}

// Frozen experts need no gradients of their matrices, but of their rows, for the layers below.
TEST(ExpertTasks, FrozenExpertsDropTheirGradients) {
  ModelConfig model = testing::tiny_model(ModelKind::mixtral);
  model.lora = {.rank = 2, .on = kLoraQkv};
  const auto graph = lower_train(model, testing::tiny_step());
  EXPECT_EQ(testing::count_of<graph::GroupedGemmGradient>(*graph), 0);
  EXPECT_TRUE(graph->find_task("mb0.L1.mlp.experts.up.bwd.gemm_dx").valid());
  EXPECT_FALSE(graph->find_task("mb0.L1.mlp.experts.up.bwd.gather_again").valid());
}

TEST(ExpertShards, YCutsEachExpertsColumnsAndXItsRows) {
  const ModelConfig model = testing::tiny_model(ModelKind::mixtral);  // 4 experts of 24 columns, width 16
  const graph::Grid grid{.x = 2, .y = 2};
  const std::vector<ParameterSpec> specs = model_parameters(model);
  const std::vector<ParameterShard> shards = shard_parameters(model, specs, grid, {.x = 1, .y = 1});
  const auto shard_of = [&](std::string_view name) {
    return *std::ranges::find_if(shards, [&](const ParameterShard& shard) { return shard.spec->name == name; });
  };
  const ParameterShard up = shard_of("L1.mlp.experts.up.weight"), down = shard_of("L1.mlp.experts.down.weight");
  EXPECT_EQ(std::tuple(up.rows, up.cols), std::tuple(4 * 2 * 12, 8));
  EXPECT_EQ(up.runs.at(0).global, 12 * 16 + 8);          // expert 0's gate
  EXPECT_EQ(up.runs.at(12).global, (24 + 12) * 16 + 8);  // its up
  EXPECT_EQ(up.runs.at(24).global, (48 + 12) * 16 + 8);  // expert 1's gate
  EXPECT_EQ(std::tuple(down.rows, down.cols), std::tuple(4 * 8, 12));
  EXPECT_EQ(down.runs.at(0).global, 8 * 24 + 12);
  EXPECT_EQ(down.runs.at(8).global, (16 + 8) * 24 + 12);
  const ParameterShard router = shard_of("L1.mlp.router.weight");
  EXPECT_EQ(std::tuple(router.rows, router.cols, router.end - router.begin), std::tuple(4, 8, 32));
  EXPECT_EQ(router.replica, 1);  // y = 1 has the same
}

// Ranks 1 and 3 of z have experts 2 and 3 of four, whole over z.
TEST(ExpertShards, NeighboursHaveWholeExperts) {
  const ModelConfig model = testing::tiny_model(ModelKind::mixtral);
  const graph::Grid grid{.y = 2, .z = 4, .expert = 2};
  const std::vector<ParameterSpec> specs = model_parameters(model);
  for (const std::int64_t z : {1, 3}) {
    const std::vector<ParameterShard> shards = shard_parameters(model, specs, grid, {.y = 1, .z = z});
    const auto shard_of = [&](std::string_view name) {
      return *std::ranges::find_if(shards, [&](const ParameterShard& shard) { return shard.spec->name == name; });
    };
    const ParameterShard up = shard_of("L1.mlp.experts.up.weight"), down = shard_of("L1.mlp.experts.down.weight");
    EXPECT_EQ(std::tuple(up.rows, up.cols, up.begin, up.end), std::tuple(2 * 2 * 12, 16, 0, 768));
    EXPECT_EQ(up.runs.at(0).global, (2 * 48 + 12) * 16);
    EXPECT_EQ(std::tuple(down.rows, down.cols, down.begin, down.end), std::tuple(2 * 16, 12, 0, 384));
    EXPECT_EQ(down.runs.at(0).global, 2 * 16 * 24 + 12);
    EXPECT_EQ(up.replica, z / 2);
    EXPECT_EQ(down.replica, z / 2);
    const ParameterShard qkv = shard_of("L1.attn.qkv.weight");
    EXPECT_EQ(4 * (qkv.end - qkv.begin), qkv.elements());
  }
}

TEST(ExpertShards, AxesDivideAnExpertsColumns) {
  ModelConfig model = testing::tiny_model(ModelKind::qwen3_moe);  // MLPs of 24 columns, experts of 12
  EXPECT_TRUE(fits_model(model, {.y = 2}));
  model.expert_ffn = 9;
  EXPECT_FALSE(fits_model(model, {.y = 2}));
  EXPECT_TRUE(testing::refuses([&] { validate_grid(model, {.y = 2}); }, {"model.expert-ffn = 9"}));
  model.ffn = 9, model.expert_ffn = 12;  // no layer has an MLP
  EXPECT_TRUE(fits_model(model, {.y = 2}));
  model.dense_layers = LayerSet({0});
  EXPECT_TRUE(testing::refuses([&] { validate_grid(model, {.y = 2}); }, {"model.ffn = 9"}));
}

TEST(ExpertModels, CountTheExpertsOfATokenAlone) {
  ModelConfig model = model_by_name("mixtral-8x7b");
  EXPECT_EQ(model.parameters(), 46'702'792'704);
  const double attention = 2.0 * 4096 * (4096 + 1024), experts = 2 * 3.0 * 14336 * 4096, router = 8 * 4096;
  const double products = 32 * (attention + experts + router) + 32000.0 * 4096;
  EXPECT_DOUBLE_EQ(train_flops_per_token(model, 4096), 6 * products + 12.0 * 32 * 4096 * 2048.5);
}

TEST(ExpertModels, RefuseAdaptersOfExperts) {
  ModelConfig model = testing::tiny_model(ModelKind::mixtral);
  for (const LoraModules on : {kLoraAll, kLoraMlp, only(LoraModule::down)}) {
    model.lora = {.rank = 2, .on = on};
    EXPECT_TRUE(testing::refuses([&] { validate(model); }, {"in a model with experts", "write on=qkv+out"}))
        << to_string(on);
  }
  model.lora.on = kLoraOut;
  EXPECT_NO_THROW(validate(model));
}

}  // namespace
}  // namespace weft::ops
