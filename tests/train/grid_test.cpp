// The requirement of 4D parallelism: every grid trains like one rank.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <regex>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/plan/plan.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/compile/compile_plan.h"
#include "tests/base/messages.h"
#include "tests/ops/tiny_model.h"
#include "tests/train/grid_run.h"
#include "tests/train/model_arrays.h"

namespace weft::train {
namespace {

ops::ModelConfig grid_model(ops::Family family) {
  const bool llama = family == ops::Family::llama;
  return testing::of_family(family, {.layers = 2,
                                     .hidden = llama ? 96 : 48,
                                     .heads = llama ? 24 : 12,
                                     .kv_heads = 12,
                                     .ffn = 60,
                                     .vocab = 61,  // no axis divides it
                                     .context = 12});
}

// A step of two micro-batches of 24 sequences in all, on any of the grids.
testing::GridRun grid_run(ops::Family family, const graph::Grid& grid) {
  return {.model = grid_model(family),
          .step = {.micro_batch = 24 / (2 * grid.batch_ranks()),
                   .seq_len = 6,
                   .micro_batches = 2,
                   .grid = grid,
                   .pipeline = {},
                   .dropout = 0.1F,
                   .clip = 0.5F}};
}

// The grids of a test are one case each of a family, so that they share their serial run.
class GridBar : public ::testing::TestWithParam<ops::Family> {
 protected:
  /// Calls the function for a run on each grid.
  static void on_grids(const std::vector<graph::Grid>& grids, const std::function<void(testing::GridRun)>& check) {
    for (const graph::Grid& grid : grids) {
      SCOPED_TRACE(graph::to_string(grid));
      check(grid_run(GetParam(), grid));
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Families, GridBar, testing::kFamilies, testing::kNameOfParam);

TEST_P(GridBar, GradientsOfTheFirstStep) {
  const auto first_step = [](testing::GridRun run) {
    run.steps = 1;
    run.step.beta1 = 0;  // the first moment is the gradient
    run.step.clip = 0;
    return testing::run_grid(run);
  };
  const testing::GridOutcome expected = first_step(grid_run(GetParam(), {}));
  on_grids(testing::thirteen_grids(), [&](const testing::GridRun& run) {
    const testing::GridOutcome found = first_step(run);
    ASSERT_EQ(found.exit_code, 0) << found.errors;
    const auto [difference, name] = testing::worst_difference(found, expected, ".m");
    EXPECT_LE(difference, 1e-5) << name;
  });
}

TEST_P(GridBar, TwentySteps) {
  const testing::GridOutcome expected = testing::run_grid(grid_run(GetParam(), {}));
  on_grids(testing::thirteen_grids(), [&](testing::GridRun run) {
    for (const bool recompute : {false, true}) {
      if (recompute && run.step.grid.ranks() < 4) continue;  // each axis is in one with others
      SCOPED_TRACE(recompute ? "recomputed" : "");
      run.step.recompute_blocks = recompute;
      testing::expect_like_one_rank(testing::run_grid(run), expected);
    }
  });
}

// The model types of Hugging Face beside gpt2 and llama, on every grid that fits: with many KV heads; and with one that
// all ranks of x share, where attention stays within documents.
class GridKinds : public ::testing::TestWithParam<testing::ModelKind> {
 protected:
  testing::GridRun run_of(std::int64_t kv_heads, const graph::Grid& grid) const {
    testing::GridRun run = grid_run(ops::Family::llama, grid);
    run.model = testing::tiny_model(
        GetParam(),
        {.layers = 2, .hidden = 48, .heads = 12, .kv_heads = kv_heads, .ffn = 36, .vocab = 61, .context = 12});
    run.model.tied = kv_heads == 1;
    run.step.document_mask = kv_heads == 1;
    run.steps = 4;
    // A norm that follows leaves some biases gradients near zero, whose rounding AdamW's first steps would magnify.
    if (GetParam() == testing::ModelKind::olmo2) run.step.eps = 1e-4F;
    return run;
  }
};

INSTANTIATE_TEST_SUITE_P(Grids, GridKinds,
                         ::testing::Values(testing::ModelKind::llama_biased, testing::ModelKind::mistral,
                                           testing::ModelKind::qwen2, testing::ModelKind::qwen3,
                                           testing::ModelKind::ministral, testing::ModelKind::phi3,
                                           testing::ModelKind::smollm3, testing::ModelKind::granite,
                                           testing::ModelKind::olmo2, testing::ModelKind::olmo3,
                                           testing::ModelKind::gemma, testing::ModelKind::gemma3_text,
                                           testing::ModelKind::mixtral, testing::ModelKind::qwen3_moe),
                         testing::kNameOfParam);

TEST_P(GridKinds, TrainLikeOneRank) {
  for (const std::int64_t kv_heads : {12, 1}) {
    const testing::GridOutcome expected = testing::run_grid(testing::recording(run_of(kv_heads, {})));
    for (const graph::Grid& grid : testing::thirteen_grids()) {
      if (kv_heads % grid.y != 0) continue;
      for (const bool zero1 : {false, true}) {
        if (zero1 && grid.data == 1) continue;
        SCOPED_TRACE(fmt::format("{} KV heads, {}{}", kv_heads, graph::to_string(grid), zero1 ? ", zero-1" : ""));
        testing::GridRun run = testing::replaying(expected, run_of(kv_heads, grid));
        run.step.zero1 = zero1;
        run.step.recompute_blocks = grid.z > 1;
        testing::expect_like_one_rank(testing::run_grid(run), expected,
                                      static_cast<std::size_t>(run.model.query_cols()));
      }
    }
  }
}

TEST_P(GridKinds, GradientsOfTheFirstStep) {
  const auto first_step = [this](const graph::Grid& grid) {
    testing::GridRun run = run_of(12, grid);
    run.steps = 1;
    run.step.beta1 = 0;  // the first moment is the gradient
    run.step.clip = 0;
    return run;
  };
  const testing::GridOutcome expected = testing::run_grid(testing::recording(first_step({})));
  for (const graph::Grid& grid : testing::thirteen_grids()) {
    const testing::GridOutcome found = testing::run_grid(testing::replaying(expected, first_step(grid)));
    ASSERT_EQ(found.exit_code, 0) << found.errors;
    const auto [difference, name] = testing::worst_difference(found, expected, ".m");
    EXPECT_LE(difference, 1e-5) << name << " on " << graph::to_string(grid);
  }
}

TEST_P(GridKinds, TrainInTwoStagesLikeOneRank) {
  const testing::GridOutcome expected = testing::run_grid(testing::recording(run_of(12, {})));
  testing::GridRun run = testing::replaying(expected, run_of(12, {.pipe = 2}));
  run.policy = "1f1b";
  run.step.pipeline = ops::balanced_layout(run.model, run.step.seq_len, 2);
  testing::expect_like_one_rank(testing::run_grid(run), expected, static_cast<std::size_t>(run.model.query_cols()));
}

TEST_P(GridBar, Bf16IsNearItsOwnSerialRun) {
  const testing::GridOutcome expected = testing::run_in_bf16(grid_run(GetParam(), {}));
  on_grids(testing::thirteen_grids(),
           [&](const testing::GridRun& run) { testing::expect_near_in_bf16(testing::run_in_bf16(run), expected); });
}

// In bf16 some tokens of each step would take other experts on another grid.
TEST(GridExperts, Bf16IsNearItsOwnSerialRunWithReplayedChoices) {
  for (const testing::ModelKind kind : {testing::ModelKind::mixtral, testing::ModelKind::qwen3_moe}) {
    const auto run_on = [&](const graph::Grid& grid) {
      testing::GridRun run = grid_run(ops::Family::llama, grid);
      run.model = testing::tiny_model(
          kind, {.layers = 2, .hidden = 48, .heads = 12, .kv_heads = 12, .ffn = 36, .vocab = 61, .context = 12});
      return run;
    };
    const testing::GridOutcome expected = testing::run_in_bf16(testing::recording(run_on({})));
    for (const graph::Grid& grid : testing::thirteen_grids()) {
      SCOPED_TRACE(fmt::format("{} on {}", testing::to_string(kind), graph::to_string(grid)));
      testing::expect_near_in_bf16(testing::run_in_bf16(testing::replaying(expected, run_on(grid))), expected);
    }
  }
}

struct Flags {
  const char* name;
  void (*set)(ops::StepConfig&);
};

// Ways to keep and to send that change no number, or only how gradients are rounded on the wire.
TEST(GridFlags, KeepingAndSendingInOtherWays) {
  for (const ops::Family family : {ops::Family::gpt2, ops::Family::llama}) {
    testing::GridRun serial = grid_run(family, {});
    serial.steps = 4;
    const testing::GridOutcome expected = testing::run_grid(serial);
    for (const graph::Grid& grid :
         {graph::Grid{1, 1, 1, 2}, graph::Grid{1, 1, 2, 2}, graph::Grid{2, 2, 2, 1}, graph::Grid{2, 1, 1, 2}}) {
      testing::GridRun usual = grid_run(family, grid);
      usual.steps = 4;
      const testing::GridOutcome plain = testing::run_grid(usual);
      for (const Flags& flags : {Flags{"zero-1", [](ops::StepConfig& s) { s.zero1 = true; }},
                                 Flags{"reshard", [](ops::StepConfig& s) { s.reshard_after_forward = true; }},
                                 Flags{"reshard, recompute",
                                       [](ops::StepConfig& s) { s.reshard_after_forward = s.recompute_blocks = true; }},
                                 Flags{"zero-1, reshard, recompute", [](ops::StepConfig& s) {
                                         s.zero1 = s.reshard_after_forward = s.recompute_blocks = true;
                                       }}}) {
        SCOPED_TRACE(std::string(ops::to_string(family)) + " " + graph::to_string(grid) + " " + flags.name);
        testing::GridRun run = usual;
        flags.set(run.step);
        const testing::GridOutcome found = testing::run_grid(run);
        testing::expect_like_one_rank(found, expected);
        EXPECT_EQ(found.losses.front(), plain.losses.front());
      }
      testing::GridRun narrow = usual;
      narrow.step.reduce_dtype = DType::bf16;
      const testing::GridOutcome found = testing::run_grid(narrow);
      ASSERT_EQ(found.exit_code, 0) << found.errors;
      testing::expect_near(found.losses, expected.losses, 2e-3, "loss");
      testing::expect_near(found.norms, expected.norms, 1e-2, "gradient norm");
    }
  }
}

// Two micro-batches, each of which is scattered over z.
class GridMicroBatches : public GridBar {
 protected:
  static void on_scattering_grids(const std::function<void(testing::GridRun)>& check) {
    on_grids({{1, 1, 2, 1}, {1, 1, 3, 1}, {2, 1, 2, 1}, {1, 2, 2, 1}, {1, 1, 2, 2}, {2, 2, 2, 1}},
             [&](testing::GridRun run) {
               run.step.gradient_reduction = ops::GradientReduction::micro_batch;
               check(run);
             });
  }
};

INSTANTIATE_TEST_SUITE_P(Families, GridMicroBatches, testing::kFamilies, testing::kNameOfParam);

TEST_P(GridMicroBatches, ScatteredOneByOneTrainLikeOneRank) {
  const testing::GridOutcome expected = testing::run_grid(grid_run(GetParam(), {}));
  on_scattering_grids([&](testing::GridRun run) {
    for (const bool saving : {false, true}) {
      SCOPED_TRACE(saving ? "zero-1, reshard, recompute" : "plain");
      run.step.zero1 = run.step.reshard_after_forward = run.step.recompute_blocks = saving;
      testing::expect_like_one_rank(testing::run_grid(run), expected);
    }
  });
}

// The bits are the key's alone: no policy, rewrite or number of streams changes them, and the order of summation does.
TEST_P(GridMicroBatches, ScatteredOneByOneKeepTheirBitsUnderPolicies) {
  on_scattering_grids([](testing::GridRun run) {
    run.steps = 3;
    const testing::GridOutcome expected = testing::run_grid(run);
    testing::expect_equal_under_policies(run, expected);
    run.rewrites = "recompute;reshard;bucket=2KB;split-collective=1KB;ar-to-rs-ag";
    testing::expect_equal(testing::run_grid(run), expected);
    run.rewrites = "";
    run.step.gradient_reduction = ops::GradientReduction::step;
    EXPECT_NE(testing::run_grid(run).arrays, expected.arrays);
  });
}

TEST_P(GridMicroBatches, ScatteredOneByOneInBf16) {
  const testing::GridOutcome expected = testing::run_in_bf16(grid_run(GetParam(), {}));
  on_scattering_grids([&](testing::GridRun run) {
    run.step.dtype = DType::bf16;
    run.steps = 10;
    for (const DType sent : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(to_string(sent));
      run.step.reduce_dtype = sent;
      testing::expect_near_in_bf16(testing::run_grid(run), expected);
    }
    run.steps = 3;
    testing::expect_equal_under_policies(run, testing::run_grid(run), {"serial", "fsdp", "lhs"});
  });
}

// Under policies that keep the program's order; list schedules run ahead with the memory that they have.
TEST(GridMicroBatchMemory, AScatteredGradientLeavesItsMemoryToTheNext) {
  for (const ops::Family family : {ops::Family::gpt2, ops::Family::llama}) {
    for (const char* policy : {"program", "serial", "axonn", "fsdp", "ddp-bucket"}) {
      SCOPED_TRACE(fmt::format("{} {}", ops::to_string(family), policy));
      testing::GridRun run = grid_run(family, graph::Grid{1, 1, 2, 1});
      run.model.layers = 6;
      run.step.seq_len = 2;
      run.step.micro_batches = 4;
      run.step.micro_batch = 1;
      const auto plan_of = [&](ops::GradientReduction reduction) {
        run.step.gradient_reduction = reduction;
        return policy::compile_plan(ops::lower_train(run.model, run.step), *policy::make_policy(policy), {}, {});
      };
      const plan::Plan step = plan_of(ops::GradientReduction::step),
                       micro_batch = plan_of(ops::GradientReduction::micro_batch);
      EXPECT_LT(micro_batch.scratch_bytes, step.scratch_bytes);
      EXPECT_LT(plan::memory_report(micro_batch).of(graph::Role::gradient),
                plan::memory_report(step).of(graph::Role::gradient));
    }
  }
}

// Two KV heads on up to six ranks of x·y: ranks of x share them.
TEST(GridSharedHeads, TrainLikeOneRank) {
  const auto shared = [](const graph::Grid& grid) {
    testing::GridRun run = grid_run(ops::Family::llama, grid);
    run.model.heads = 12;
    run.model.kv_heads = 2;
    run.steps = 4;
    return run;
  };
  const testing::GridOutcome expected = testing::run_grid(shared({}));
  for (const graph::Grid& grid :
       {graph::Grid{4, 1, 1, 1}, graph::Grid{2, 2, 1, 1}, graph::Grid{6, 1, 1, 1}, graph::Grid{2, 2, 2, 1}}) {
    SCOPED_TRACE(graph::to_string(grid));
    ASSERT_TRUE(ops::local_heads(shared(grid).model, grid).kv_shared);
    testing::expect_like_one_rank(testing::run_grid(shared(grid)), expected);
  }
}

/// The grids that a refusal names, each as a whole: "choose x=1 or x=3 or --grid x=2".
std::vector<graph::Grid> grids_to_choose(const std::string& refusal, const graph::Grid& refused) {
  static const std::regex size("(\\w+)=(\\d+)");
  std::vector<graph::Grid> named;
  const std::string choices = refusal.substr(refusal.find("choose ") + 7);
  static const std::regex between(" or ");
  for (std::sregex_token_iterator choice(choices.begin(), choices.end(), between, -1), last; choice != last; ++choice) {
    const std::string text = *choice;
    graph::Grid& grid = named.emplace_back(text.starts_with("--grid") ? graph::Grid{.order = refused.order} : refused);
    for (std::sregex_iterator at(text.begin(), text.end(), size), end; at != end; ++at) {
      for (const graph::Axis axis : graph::kAxes) {
        if ((*at)[1] == std::string(graph::to_string(axis))) grid.on(axis) = std::stoll((*at)[2]);
      }
    }
  }
  return named;
}

// Model, grid, flags, rewrites and policy at random; two steps.
testing::GridRun random_run(int trial, std::mt19937& random) {
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  const std::vector<std::string> policies = {"program",    "serial", "random:seed=3", "fsdp", "fsdp:reshard=false",
                                             "ddp-bucket", "axonn",  "critical-path"};
  testing::GridRun run;
  ops::ModelConfig& model = run.model;
  model.family = draw(0, 1) == 0 ? ops::Family::gpt2 : ops::Family::llama;
  model.layers = draw(1, 2);
  model.kv_heads = draw(1, 4);
  model.heads = model.kv_heads * draw(1, 3);
  if (model.family == ops::Family::gpt2) model.kv_heads = model.heads;
  model.hidden = model.heads * 2 * draw(1, 4);
  model.ffn = draw(1, 4) * 12;
  model.vocab = draw(5, 70);
  model.context = draw(3, 8);
  model.tied = draw(0, 1) == 0;
  if (trial % 3 == 0) {
    ops::LoraModules on = ops::kLoraOut;
    if (trial % 5 != 0) on |= ops::kLoraQkv;
    if (trial % 2 == 0) on |= ops::kLoraMlp;
    model.lora = {.rank = 1 + trial % 4, .on = on};
    // Keys have none, and values another rank than queries.
    if (trial % 4 == 0 && model.family == ops::Family::llama) {
      model.lora.on = ~ops::only(ops::LoraModule::k);
      model.lora.own_rank = {0, 0, 2};
    }
  }
  ops::StepConfig& step = run.step;
  do {
    step.grid = graph::Grid{draw(1, 3), draw(1, 3), draw(1, 3), draw(1, 2)};
  } while (step.grid.ranks() > 8);
  std::shuffle(step.grid.order.begin(), step.grid.order.end(), random);
  step.seq_len = draw(2, model.context);
  step.micro_batches = draw(1, 2);
  step.micro_batch = draw(1, 2);
  step.recompute_blocks = draw(0, 1) == 0;
  step.reshard_after_forward = draw(0, 1) == 0;
  step.zero1 = draw(0, 1) == 0;
  step.dropout = draw(0, 1) == 0 ? 0.0F : 0.2F;
  step.clip = draw(0, 1) == 0 ? 0.0F : 0.3F;
  step.reduce_dtype = draw(0, 3) == 0 ? DType::bf16 : DType::f32;
  if (draw(0, 1) == 0) step.gradient_reduction = ops::GradientReduction::micro_batch;
  const std::int64_t rows = step.micro_batch * step.seq_len;
  step.sequence_parallel = trial % 2 == 0 && rows % step.grid.x == 0 && rows % step.grid.y == 0;
  for (const char* rewrite :
       {"recompute", "recompute=0", "reshard", "reshard=0", "bucket=512", "split-collective=128", "ar-to-rs-ag"}) {
    if (draw(0, 4) == 0) run.rewrites += (run.rewrites.empty() ? "" : ";") + std::string(rewrite);
  }
  run.policy = policies[static_cast<std::size_t>(draw(0, std::ssize(policies) - 1))];
  run.steps = 2;
  return run;
}

// It names the axis with its size, and grids that are valid.
void expect_refusal_helps(const std::string& text, const ops::ModelConfig& model, const graph::Grid& grid) {
  EXPECT_NE(text.find("does not divide by"), std::string::npos) << text;
  ASSERT_NE(text.find("choose "), std::string::npos) << text;
  bool names_axis = false;  // with the size that doesn't fit
  for (const graph::Axis axis : graph::kAxes) {
    names_axis = names_axis ||
                 text.find(fmt::format(" by {} = {};", graph::to_string(axis), grid.on(axis))) != std::string::npos;
  }
  EXPECT_TRUE(names_axis) << text;
  for (const graph::Grid& other : grids_to_choose(text, grid)) {
    EXPECT_FALSE(other == grid) << text;
    EXPECT_NO_THROW(ops::validate_grid(model, other)) << text;
  }
}

// For any model, grid and flags, training equals one rank's, or is refused before it begins.
void expect_one_ranks_or_refused(int trials) {
  std::mt19937 random(5);
  int trained = 0, refused = 0, narrow = 0, apart = 0;
  for (int trial = 0; trial < trials; ++trial) {
    const testing::GridRun run = random_run(trial, random);
    const ops::ModelConfig& model = run.model;
    const ops::StepConfig& step = run.step;
    SCOPED_TRACE(
        fmt::format("trial {}: {}, heads {}/{}, hidden {}, ffn {}, vocab {}, grid {}, {} gradients, policy {}, "
                    "rewrites {}, lora {}, sequence-parallel {}",
                    trial, ops::to_string(model.family), model.heads, model.kv_heads, model.hidden, model.ffn,
                    model.vocab, graph::to_string(step.grid), to_string(step.reduce_dtype), run.policy, run.rewrites,
                    model.lora.rank, step.sequence_parallel));
    const std::string refusal = testing::message_of<UserError>([&] { ops::validate_grid(model, step.grid); });
    if (!refusal.empty()) {
      ++refused;
      ASSERT_NO_FATAL_FAILURE(expect_refusal_helps(refusal, model, step.grid));
      continue;
    }
    ++trained;
    testing::GridRun serial = run;
    serial.step.grid = {};
    serial.step.zero1 = false;
    apart += step.scatters_each_micro_batch() ? 1 : 0;
    serial.step.micro_batch *= step.grid.batch_ranks();
    serial.policy = "serial";
    serial.rewrites = "";
    const testing::GridOutcome expected = testing::run_grid(serial), found = testing::run_grid(run);
    ASSERT_EQ(found.exit_code, 0) << found.errors;
    if (step.reduce_dtype == DType::bf16) {  // gradients are rounded on the wire
      ++narrow;
      EXPECT_LE(std::abs(found.losses[0] - expected.losses[0]), 1e-6 * expected.losses[0]) << "before any gradient";
      testing::expect_near(found.losses, expected.losses, 2e-3, "loss");
      testing::expect_near(found.norms, expected.norms, 1e-2, "gradient norm");
      continue;
    }
    testing::expect_near(found.losses, expected.losses, 1e-6, "loss");
    testing::expect_near(found.norms, expected.norms, 1e-5, "gradient norm");
    // Parameters that began at zero consist, after two steps, of normalised gradients only, and the smallest gradients
    // are rounding errors.
    for (const auto& [name, values] : expected.arrays) {
      if (name.find("attn.qkv.bias") != std::string::npos || name.ends_with(".m")) continue;
      const bool from_zero = name.ends_with("bias") || name.ends_with(ops::kLoraB);
      EXPECT_LE(testing::relative_difference(found.arrays.at(name), values), from_zero ? 1e-3 : 1e-5) << name;
    }
  }
  EXPECT_GT(trained, trials * 3 / 10);
  EXPECT_GT(refused, trials / 5);
  EXPECT_GT(narrow, trials / 20);
  EXPECT_GT(apart, trials / 25);
}

TEST(GridProperty, RandomRunsEqualOneRankOrAreRefused) {
  expect_one_ranks_or_refused(70);
}

TEST(GridProperty, TwoHundredRandomRunsEqualOneRankOrAreRefused) {
  expect_one_ranks_or_refused(200);
}

// ---- adapters

// A model that every grid can cut, with adapters of all layers. `kv_heads` below 12: llama, where ranks of x share
// heads.
testing::GridRun lora_run(ops::Family family, const graph::Grid& grid, std::int64_t kv_heads = 12) {
  testing::GridRun run{
      .model = testing::of_family(
          family, {.layers = 2, .hidden = 24, .heads = 12, .kv_heads = kv_heads, .ffn = 36, .vocab = 23, .context = 8}),
      .step = {.micro_batch = 24 / (2 * grid.batch_ranks()),
               .seq_len = 5,
               .micro_batches = 2,
               .grid = grid,
               .pipeline = {},
               .dropout = 0.1F},
      .steps = 5,
      .lr = 1e-2,
      .warmup = 1};
  run.model.lora = {.rank = 3, .alpha = 7.5F};
  run.step.clip = 0.05F;  // clips, so that the norm of the adapters' gradients counts
  run.step.eps = 1e-4F;   // B begins at zero, and without it would consist of the signs of gradients, the smallest too
  return run;
}

void expect_like(const testing::GridRun& run, const testing::GridOutcome& expected) {
  const testing::GridOutcome found = testing::run_grid(run);
  ASSERT_EQ(found.exit_code, 0) << found.errors;
  testing::expect_near(found.losses, expected.losses, 1e-5, "loss");
  testing::expect_near(found.norms, expected.norms, 1e-5, "gradient norm");
  for (const auto& [name, values] : expected.arrays) {
    if (name.find("lora") == std::string::npos) {
      EXPECT_EQ(found.arrays.at(name), values) << name;
    } else {
      EXPECT_LE(testing::relative_difference(found.arrays.at(name), values), 1e-5) << name;
    }
  }
}

class LoraGrids : public ::testing::TestWithParam<ops::Family> {};

INSTANTIATE_TEST_SUITE_P(Families, LoraGrids, testing::kFamilies, testing::kNameOfParam);

TEST_P(LoraGrids, TrainLikeOneRank) {
  const testing::GridOutcome expected = testing::run_grid(lora_run(GetParam(), {}));
  ASSERT_EQ(expected.exit_code, 0) << expected.errors;
  EXPECT_LT(expected.losses.back(), expected.losses.front());
  for (const graph::Grid& grid : testing::thirteen_grids()) {
    SCOPED_TRACE(graph::to_string(grid));
    testing::GridRun run = lora_run(GetParam(), grid);
    run.step.recompute_blocks = grid.z > 1;
    run.step.zero1 = grid.data > 1;
    run.step.reshard_after_forward = grid.z > 1;
    expect_like(run, expected);
  }
}

// Where ranks of x share heads of keys and values, these come out of another output of the layer than the queries.
TEST(LoraGridParts, SharedHeadsAndSomeLayersOnly) {
  const std::map<std::string, ops::LoraConfig> choices = {
      {"all", {.rank = 3}},
      {"qkv", {.rank = 2, .on = ops::kLoraQkv}},
      {"out", {.rank = 2, .on = ops::kLoraOut}},
      {"mlp", {.rank = 2, .on = ops::kLoraMlp}},
      {"q+v", {.rank = 2, .on = ops::only(ops::LoraModule::q) | ops::only(ops::LoraModule::v)}},
      {"k+up", {.rank = 2, .on = ops::only(ops::LoraModule::k) | ops::only(ops::LoraModule::up), .rslora = true}},
      {"own ranks", {.rank = 3, .own_rank = {0, 1, 2, 0, 2}, .own_alpha = {0, 0, 0, 0, 0, 5.0F}}}};
  for (const auto& [name, lora] : choices) {
    SCOPED_TRACE(name);
    const auto run_on = [&lora = lora](const graph::Grid& grid) {
      testing::GridRun run = lora_run(ops::Family::llama, grid, 2);
      run.model.lora = lora;
      return run;
    };
    const testing::GridOutcome expected = testing::run_grid(run_on({}));
    ASSERT_EQ(expected.exit_code, 0) << expected.errors;
    for (const graph::Grid& grid : {graph::Grid{4, 1, 1, 1}, graph::Grid{3, 2, 1, 1}}) {
      testing::GridRun run = run_on(grid);
      SCOPED_TRACE(graph::to_string(grid));
      expect_like(run, expected);
    }
  }
}

// The base is neither changed nor kept in fp32 beside bf16, and the optimizer keeps nothing of it.
TEST(LoraGridParts, OnlyAdaptersAreTrained) {
  testing::GridRun run = lora_run(ops::Family::gpt2, graph::Grid{1, 1, 2, 1});
  const auto start = [&](const std::string& name) {
    for (const ops::ParameterSpec& spec : ops::model_parameters(run.model)) {
      if (spec.name == name) return testing::initial_values(spec, run.seed);
    }
    throw std::logic_error(name);
  };
  const testing::GridOutcome outcome = testing::run_grid(run);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  for (const auto& [name, values] : outcome.arrays) {
    if (name.ends_with(".m")) {
      EXPECT_NE(name.find(".lora_"), std::string::npos) << name;
    } else if (name.find(".lora_") == std::string::npos) {
      EXPECT_EQ(values, start(name)) << name;
    } else {
      EXPECT_NE(values, start(name)) << name;
    }
  }
}

}  // namespace
}  // namespace weft::train
