// Rewrites by name, and the promise of all of them: another graph, the same bits.
#include "runtime/plan/rewrite.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "runtime/comm/launch.h"
#include "runtime/execute/program/program.h"
#include "runtime/policy/catalog/policies.h"
#include "tests/base/messages.h"
#include "tests/runtime/executable_graph.h"
#include "tests/runtime/layered_graph.h"

namespace weft::plan {
namespace {

using Layers = std::vector<std::int32_t>;

TEST(Rewrite, TextAndBack) {
  EXPECT_TRUE(parse_rewrites("").empty());
  const std::vector<Rewrite> all =
      parse_rewrites("bucket=25MB;split-collective=64KB;ar-to-rs-ag;reshard;recompute=7,0-3,2");
  const std::vector<Rewrite> expected = {BucketAllReduces{25 << 20}, SplitAllReduces{64 << 10},
                                         ReduceScatterAllGather{}, ReshardAfterForward{},
                                         RecomputeLayers{{0, 1, 2, 3, 7}}};
  EXPECT_EQ(all, expected);
  const std::string text = "bucket=26214400;split-collective=65536;ar-to-rs-ag;reshard;recompute=0-3,7";
  EXPECT_EQ(to_string(std::span<const Rewrite>(all)), text);
  EXPECT_EQ(parse_rewrites(text), expected);
  EXPECT_EQ(parse_rewrites("bucket;split-collective;recompute;reshard=5"),
            (std::vector<Rewrite>{BucketAllReduces{}, SplitAllReduces{}, RecomputeLayers{}, ReshardAfterForward{{5}}}));
  EXPECT_EQ(parse_rewrites("bucket=1GB").front(), Rewrite(BucketAllReduces{1 << 30}));
  EXPECT_EQ(parse_rewrites("pack-weights;pack-weights=5"), (std::vector<Rewrite>{PackWeights{2}, PackWeights{5}}));
  EXPECT_EQ(to_string(Rewrite(PackWeights{5})), "pack-weights=5");
  EXPECT_EQ(parse_rewrites("pack-weights=5,fp32").front(), Rewrite(PackWeights{5, PackedUnit::f32}));
  EXPECT_EQ(to_string(Rewrite(PackWeights{5, PackedUnit::amx})), "pack-weights=5,amx");
  EXPECT_TRUE(packs_weights(parse_rewrites("bucket;pack-weights")));
  EXPECT_FALSE(packs_weights(parse_rewrites("bucket;reshard")));
  EXPECT_EQ(parse_rewrites("fuse-gelu"), std::vector<Rewrite>{FuseGelu{}});
  EXPECT_EQ(to_string(Rewrite(FuseGelu{})), "fuse-gelu");
  EXPECT_EQ(parse_rewrites("fuse-residual"), std::vector<Rewrite>{FuseResidual{}});
  EXPECT_EQ(to_string(Rewrite(FuseResidual{})), "fuse-residual");
  EXPECT_EQ(parse_rewrites("fuse-bias-gradient"), std::vector<Rewrite>{FuseBiasGradient{}});
  EXPECT_EQ(to_string(Rewrite(FuseBiasGradient{})), "fuse-bias-gradient");
  EXPECT_TRUE(is_fusion(FuseGelu{}) && is_fusion(FuseResidual{}) && is_fusion(FuseBiasGradient{}));
  EXPECT_FALSE(is_fusion(PackWeights{}));
  EXPECT_TRUE(fuses_gelu(parse_rewrites("bucket;fuse-gelu")));
  EXPECT_FALSE(fuses_gelu(parse_rewrites("fuse-residual")));
  EXPECT_FALSE(fuses_gelu(parse_rewrites("bucket;reshard")));
}

TEST(Rewrite, BadTextIsRefusedWithAFix) {
  struct Case {
    const char *text, *part;
  };
  for (const Case& bad : {Case{"buket=4MB", "write bucket"},
                          Case{"bucket=", "bucket=25MB"},
                          Case{"bucket=0", "from 1"},
                          Case{"bucket=-4", "from 1"},
                          Case{"bucket=4XB", "25MB"},
                          Case{"bucket=99999999999999GB", "1024GB"},
                          Case{"bucket=1025GB", "1024GB"},
                          Case{"bucket=9223372036854775807", "1024GB"},
                          Case{"ar-to-rs-ag=3", "no value"},
                          Case{"recompute=", "recompute=0-3,7"},
                          Case{"recompute=3-1", "recompute=0-3,7"},
                          Case{"recompute=1,,2", "recompute=0-3,7"},
                          Case{"reshard=-1", "layers from 0"},
                          Case{"reshard=0-999999999", "layers from 0"},
                          Case{"reshard;", "separated by semicolons"},
                          Case{"pack-weights=0", "from 1"},
                          Case{"pack-weights=x", "pack-weights=2"},
                          Case{"pack-weight", "write pack-weights"},
                          Case{"fuse-gelu=on", "no value"},
                          Case{"fuse-gel", "write fuse-gelu"},
                          Case{"fuse-residual=1", "no value"},
                          Case{"fuse-residuals", "write fuse-residual"},
                          Case{"fuse-bias-gradient=", "no value"},
                          Case{"fuse-bias-gradients", "write fuse-bias-gradient"},
                          Case{";", "separated by semicolons"},
                          Case{"reshard, recompute", "semicolons"}}) {
    EXPECT_TRUE(refuses([&] { parse_rewrites(bad.text); }, {bad.part})) << bad.text;
  }
}

TEST(Rewrite, LongListsOfLayersEnd) {
  std::string text = "recompute=0-99999";
  for (int i = 0; i < 100; ++i) text += ",0-99999";
  EXPECT_THROW(parse_rewrites(text), UserError);
}

// Scratch tensors of all sizes that are written, reduced on one channel or on two, and read, in a random order.
std::shared_ptr<const graph::Graph> reductions(std::uint64_t seed, std::int64_t ranks) {
  testing::Draws draws(seed);
  graph::GraphBuilder builder;
  struct Value {
    graph::TensorId id;
    DType dtype;
    std::int64_t elements;
    int left;  // all-reduces
  };
  std::vector<Value> open;
  const auto view = [](graph::TensorId id, std::int64_t begin, std::int64_t n) {
    return graph::View{id, begin, 1, n, n};
  };
  for (int i = 0; i < 40; ++i) {
    if (open.empty() || draws.chance(50)) {
      constexpr std::int64_t kSizes[] = {16, 32, 64, 96, 240, 7, 33, 1000};
      const std::int64_t n = kSizes[draws.below(8)];
      const DType dtype = draws.chance(20) ? DType::bf16 : DType::f32;
      const std::string name = "g" + std::to_string(i);
      const graph::TensorId source = builder.add_tensor({name + ".in", dtype, {n}, graph::Role::parameter});
      const graph::TensorId id = builder.add_tensor({name, dtype, {n}, graph::Role::gradient});
      builder.add_task(
          {name,
           graph::Add{n},
           {graph::read(view(source, 0, n)), graph::read(view(source, 0, n)), graph::write(view(id, 0, n))}});
      open.push_back({id, dtype, n, static_cast<int>(draws.between(1, 2))});
      continue;
    }
    Value& value = open[draws.below(open.size())];
    const std::int64_t work = graph::all_reduce_workspace(value.elements, ranks);
    const std::string name = "reduce" + std::to_string(i);
    const graph::TensorId workspace =
        builder.add_tensor({name + ".workspace", value.dtype, {work}, graph::Role::workspace});
    const graph::Channel channel =
        value.left == 2 || draws.chance(30) ? graph::Channel::z_scatter : graph::Channel::data;
    builder.add_task({name,
                      graph::AllReduce{channel, ranks, value.elements},
                      {graph::read_write(view(value.id, 0, value.elements)), graph::write(view(workspace, 0, work))}});
    if (--value.left > 0 && !draws.chance(10)) continue;
    const std::int64_t n = draws.between(1, value.elements), begin = draws.between(0, value.elements - n);
    const graph::TensorId out = builder.add_tensor({name + ".out", value.dtype, {n}, graph::Role::parameter});
    builder.add_task({name + ".read",
                      graph::Add{n},
                      {graph::read(view(value.id, begin, n)), graph::read(view(value.id, begin, n)),
                       graph::write(view(out, 0, n))}});
    if (value.left <= 0) std::erase_if(open, [&](const Value& v) { return v.id == value.id; });
  }
  return std::make_shared<const graph::Graph>(std::move(builder).build());
}

std::size_t tasks_after(const std::shared_ptr<const graph::Graph>& graph, const std::string& rewrites) {
  return rewrite(graph, parse_rewrites(rewrites))->tasks().size();
}

// Runs the rewritten graph under a policy and holds every rank's state against a plain execution of the graph itself.
void expect_equal_bits(const std::shared_ptr<const graph::Graph>& graph, int ranks, const std::string& rewrites,
                       const std::string& policy) {
  const std::vector<testing::StateBytes> expected = testing::reference_states(graph, ranks, 3);
  std::vector<testing::StateBytes> states(static_cast<std::size_t>(ranks));
  const int code = comm::run_ranks(ranks, [&](comm::World& world) {
    execute::Program program(world, {{"train", graph}},
                             {.policy = policy::make_policy(policy),
                              .policy_options = {.compute_streams = 2},
                              .rewrites = parse_rewrites(rewrites)});
    testing::fill(*graph, program.state(), world.rank());
    for (int step = 0; step < 3; ++step) program.run("train", step);
    states[static_cast<std::size_t>(world.rank())] = testing::bytes_of(*graph, program.state());
    return 0;
  });
  ASSERT_EQ(code, 0);
  for (std::size_t rank = 0; rank < states.size(); ++rank)
    EXPECT_EQ(testing::difference(expected[rank], states[rank]), "") << "rank " << rank;
}

TEST(RewriteBits, ReductionsInEveryForm) {
  std::size_t joined = 0, cut = 0, halved = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const int ranks = 2 + static_cast<int>(seed % 2);
    const auto graph = reductions(seed, ranks);
    const std::size_t tasks = graph->tasks().size();
    joined += tasks - tasks_after(graph, "bucket=2KB");
    cut += tasks_after(graph, "split-collective=128") - tasks;
    halved += tasks_after(graph, "ar-to-rs-ag") - tasks;
    for (const char* rewrites :
         {"bucket=2KB", "bucket", "split-collective=128", "ar-to-rs-ag", "bucket=4KB;split-collective=512;ar-to-rs-ag",
          "split-collective=64;bucket=1KB;bucket"}) {
      SCOPED_TRACE(::testing::Message() << "seed " << seed << ", " << rewrites);
      expect_equal_bits(graph, ranks, rewrites, seed % 2 == 0 ? "program" : "serial");
    }
  }
  EXPECT_GT(joined, 20U);
  EXPECT_GT(cut, 20U);
  EXPECT_GT(halved, 20U);
}

TEST(RewriteBits, GraphsOfAllOperations) {
  std::size_t recomputed = 0, resharded = 0, halved = 0, cut = 0;
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    const int ranks = 1 + static_cast<int>(seed % 3);
    const auto graph = testing::in_layers(*testing::executable_graph(seed, ranks, {.tasks = 60, .tensors = 70}), seed);
    const std::size_t tasks = graph->tasks().size();
    recomputed += tasks_after(graph, "recompute") - tasks;
    resharded += tasks_after(graph, "reshard") - tasks;
    halved += tasks_after(graph, "ar-to-rs-ag") - tasks;
    cut += tasks_after(graph, "split-collective=1KB") - tasks;
    for (const char* rewrites : {"recompute", "reshard", "recompute=1;reshard=0", "split-collective=1KB", "ar-to-rs-ag",
                                 "recompute;reshard;bucket;split-collective=512;ar-to-rs-ag"}) {
      SCOPED_TRACE(::testing::Message() << "seed " << seed << ", " << rewrites);
      expect_equal_bits(graph, ranks, rewrites, seed % 2 == 0 ? "serial" : "program");
    }
  }
  EXPECT_GT(recomputed, 20U);
  EXPECT_GT(resharded, 2U);
  EXPECT_GT(halved, 5U);
  EXPECT_GT(cut, 20U);
}

}  // namespace
}  // namespace weft::plan
