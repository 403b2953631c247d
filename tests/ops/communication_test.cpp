// The volume of the four linear layers against the closed forms of AxoNN's performance model (reference: arXiv
// 2502.08145 and Megatron-AxoNN's comm_model.py, with its factor of MLP-down corrected).
#include "ops/communication.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>

#include "ops/lower.h"
#include "tests/ops/tiny_model.h"

namespace weft::ops {
namespace {

ModelConfig wide_model(Family family) {
  ModelConfig model = testing::tiny_model(family);
  model.hidden = 48;
  model.heads = model.kv_heads = 12;
  model.ffn = family == Family::gpt2 ? 192 : 96;
  return model;
}

StepConfig one_step(const graph::Grid& grid) {
  StepConfig step;
  step.grid = grid;
  step.micro_batch = 2;
  step.seq_len = 8;
  return step;
}

// Bytes that linear layers send on each channel.
std::map<graph::Channel, double> measured(const graph::Graph& graph) {
  std::map<graph::Channel, double> bytes;
  for (const Communication& row : communication_of(graph)) {
    if (row.part == ModelPart::linear) bytes[row.channel] += row.bytes;
  }
  return bytes;
}

// For each layer with in → out features, m rows on a rank, (a, b) = (x, y), or (y, x) if transposed:
//   AG_z  gathers·(Gz−1)/Gz·in·out/(Gx·Gy)·e       AR_a(O)   2(Ga−1)/Ga·m·out/Gb·e
//   RS_z          (Gz−1)/Gz·in·out/(Gx·Gy)·4       AR_b(dI)  2(Gb−1)/Gb·m·in/Ga·e
//   AR_data  2(Gdata−1)/Gdata·in·out/(Gx·Gy·Gz)·4
std::map<graph::Channel, double> closed_form(const ModelConfig& model, const StepConfig& step, double gathers) {
  const graph::Grid& grid = step.grid;
  const double m = static_cast<double>(step.micro_batches * step.micro_batch * step.seq_len), e = 4;
  const double h = static_cast<double>(model.hidden), f = static_cast<double>(model.ffn);
  const auto share = [](std::int64_t ranks) { return static_cast<double>(ranks - 1) / static_cast<double>(ranks); };
  std::map<graph::Channel, double> bytes;
  struct Layer {
    double in, out;
    bool transposed;
  };
  const double up = model.family == Family::gpt2 ? f : 2 * f;
  for (const Layer& layer : {Layer{h, 3 * h, false}, Layer{h, h, true}, Layer{h, up, false}, Layer{f, h, true}}) {
    const std::int64_t a = layer.transposed ? grid.y : grid.x, b = layer.transposed ? grid.x : grid.y;
    const graph::Channel over_a = layer.transposed ? graph::Channel::y : graph::Channel::x,
                         over_b = layer.transposed ? graph::Channel::x : graph::Channel::y;
    const double block = layer.in * layer.out / static_cast<double>(grid.x * grid.y);
    bytes[graph::Channel::z_gather] += gathers * share(grid.z) * block * e;
    bytes[graph::Channel::z_scatter] += share(grid.z) * block * 4;
    bytes[over_a] += 2 * share(a) * m * layer.out / static_cast<double>(b) * e;
    // With sequence parallelism an input is gathered in both passes, and its gradient scattered.
    bytes[over_b] += (step.sequence_parallel ? 3 : 2) * share(b) * m * layer.in / static_cast<double>(a) * e;
    bytes[graph::Channel::data] += 2 * share(grid.data) * block / static_cast<double>(grid.z) * 4;
  }
  for (auto& [channel, sum] : bytes) sum *= static_cast<double>(model.layers);
  std::erase_if(bytes, [](const auto& entry) { return entry.second == 0; });
  return bytes;
}

void expect_equal(const std::map<graph::Channel, double>& found, const std::map<graph::Channel, double>& expected) {
  for (const graph::Channel channel : {graph::Channel::x, graph::Channel::y, graph::Channel::z_gather,
                                       graph::Channel::z_scatter, graph::Channel::data}) {
    const auto value = [&](const auto& map) { return map.contains(channel) ? map.at(channel) : 0.0; };
    EXPECT_DOUBLE_EQ(value(found), value(expected)) << graph::to_string(channel);
  }
}

using graph::Grid;

class LinearVolume : public ::testing::TestWithParam<std::pair<Family, graph::Grid>> {};

INSTANTIATE_TEST_SUITE_P(
    Axes, LinearVolume,
    ::testing::Values(std::pair(Family::gpt2, Grid{2, 1, 1, 1}), std::pair(Family::gpt2, Grid{1, 2, 1, 1}),
                      std::pair(Family::gpt2, Grid{1, 1, 2, 1}), std::pair(Family::gpt2, Grid{1, 1, 1, 2}),
                      std::pair(Family::llama, Grid{2, 3, 4, 2}), std::pair(Family::gpt2, Grid{3, 2, 2, 3}),
                      std::pair(Family::llama, Grid{1, 4, 2, 1}), std::pair(Family::llama, Grid{4, 1, 1, 2})),
    [](const auto& info) {
      return std::string(to_string(info.param.first)) + "_" + testing::name_of(info.param.second);
    });

// Weights are counted once a step, activations once a micro-batch, and scatters as the user asks.
TEST_P(LinearVolume, IsTheClosedForm) {
  struct Variant {
    std::int64_t micro_batches = 1;
    bool gathers_twice = false;  // weights are dropped after the forward pass
    GradientReduction reduction = GradientReduction::step;
    bool sequence_parallel = false;
  };
  const ModelConfig model = wide_model(GetParam().first);
  for (const Variant& variant :
       {Variant{}, Variant{1, true}, Variant{3}, Variant{3, false, GradientReduction::micro_batch},
        Variant{3, false, GradientReduction::step, true}}) {
    StepConfig step = one_step(GetParam().second);
    step.micro_batches = variant.micro_batches;
    step.reshard_after_forward = variant.gathers_twice;
    step.gradient_reduction = variant.reduction;
    step.sequence_parallel = variant.sequence_parallel;
    if (step.sequence_parallel) step.seq_len = 6;  // every axis divides the rows
    auto expected = closed_form(model, step, variant.gathers_twice ? 2 : 1);
    if (step.scatters_each_micro_batch()) expected[graph::Channel::z_scatter] *= 3;
    expect_equal(measured(*lower_train(model, step)), expected);
  }
}

std::map<ModelPart, std::int64_t> counts_of(const StepConfig& step) {
  std::map<ModelPart, std::int64_t> counts;
  for (const Communication& row : communication_of(*lower_train(wide_model(Family::gpt2), step))) {
    counts[row.part] += row.count;
  }
  return counts;
}

TEST(Communication, OtherPartsAreListedApart) {
  StepConfig step = one_step(Grid{2, 2, 2, 2});
  step.clip = 1;
  std::map<ModelPart, std::int64_t> counts = counts_of(step);
  // Two norms in a layer and one at the end: statistics forward, sums backward; weights and biases over z and data.
  EXPECT_EQ(counts[ModelPart::norms], 5 * 2 + 5 * 2 * 2);
  EXPECT_EQ(counts[ModelPart::biases], 2 * 4 * 2);
  EXPECT_EQ(counts[ModelPart::attention], 0);
  EXPECT_EQ(counts[ModelPart::optimizer], 1);
  EXPECT_EQ(counts[ModelPart::stages], 0);
  EXPECT_EQ(counts[ModelPart::loss], 2);  // statistics, metrics
  EXPECT_EQ(counts[ModelPart::head], 2);  // logits over x, their input's gradient over y
  // wte and wpe: gathered, scattered, reduced; the embedding over y.
  EXPECT_EQ(counts[ModelPart::embedding], 2 * 3 + 1);
}

// Gradients of norms are summed over y once a step, whatever the number of micro-batches.
TEST(Communication, SequenceParallelNormsAreSummedOnce) {
  StepConfig step = one_step(Grid{2, 2, 2, 2});
  std::map<ModelPart, std::int64_t> whole = counts_of(step);
  step.sequence_parallel = true;
  std::map<ModelPart, std::int64_t> cut = counts_of(step);
  EXPECT_EQ(cut[ModelPart::norms], whole[ModelPart::norms] + 5 * 2);
  EXPECT_EQ(cut[ModelPart::biases], whole[ModelPart::biases]);
  EXPECT_EQ(cut[ModelPart::loss], whole[ModelPart::loss]);
  EXPECT_EQ(cut[ModelPart::head], whole[ModelPart::head] + 2);            // its input is gathered, in both passes
  EXPECT_EQ(cut[ModelPart::embedding], whole[ModelPart::embedding] + 1);  // scattered, and its gradient gathered
  step.micro_batches = 3;
  std::map<ModelPart, std::int64_t> thrice = counts_of(step);
  // Two norms in a layer and one at the end: statistics forward, sums backward.
  EXPECT_EQ(thrice[ModelPart::norms], cut[ModelPart::norms] + 2 * 5 * 2);
}

// An input that is computed again is gathered once for the product and for the weight's gradient. In messages of one
// way and hidden columns: 2 products' results and 2 inputs' gradients are summed, 2 ways each; computed again, 1 more.
TEST(Communication, SequenceParallelSendsAsManyTimesMore) {
  StepConfig step = one_step(Grid{.y = 2});
  const auto over_y = [&](bool sequence_parallel, bool recompute) {
    step.sequence_parallel = sequence_parallel;
    step.recompute_blocks = recompute;
    return measured(*lower_train(wide_model(Family::gpt2), step))[graph::Channel::y];
  };
  const double one_way = over_y(false, false) / 8;
  EXPECT_DOUBLE_EQ(over_y(true, false), 10 * one_way);
  EXPECT_DOUBLE_EQ(over_y(false, true), 10 * one_way);
  EXPECT_DOUBLE_EQ(over_y(true, true), 11 * one_way);
}

// A stage sends the rank's rows of its output alone.
TEST(Communication, SequenceParallelStagesSendTheirRows) {
  StepConfig step = one_step(Grid{.y = 2, .pipe = 2});
  step.pipeline = balanced_layout(wide_model(Family::gpt2), step.seq_len, 2);
  const auto sent = [&] {
    double bytes = 0;
    for (const Communication& row : communication_of(*lower_train(wide_model(Family::gpt2), step))) {
      if (row.part == ModelPart::stages) bytes += row.bytes;
    }
    return bytes;
  };
  const double whole = sent();
  step.sequence_parallel = true;
  EXPECT_GT(whole, 0);
  EXPECT_DOUBLE_EQ(sent(), whole / 2);
}

}  // namespace
}  // namespace weft::ops
