// Searches of small spaces, against planning every setup.
#include "study/search/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "runtime/policy/catalog/policies.h"
#include "study/policy_step.h"
#include "study/search/search_results.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "train/step/planning.h"

namespace weft::study {
namespace {

/// On nodes of four devices with a network that is as slow as the model is small.
train::ResolvedRun small_run(std::int64_t memory) {
  train::RunConfig config;
  config.model_name = train::kCustomModel;
  config.model.layers = 6;
  config.model.hidden = 512;
  config.model.heads = config.model.kv_heads = 8;
  config.model.ffn = 2048;
  config.model.vocab = 1000;
  config.model.context = config.seq_len = 256;
  config.dtype = DType::bf16;
  config.global_batch = config.micro_batch = 1;
  config.machine = "perlmutter";
  config.memory = memory;
  train::ResolvedRun run = train::resolve(config, 0);
  run.config.global_batch = 16;
  return run;
}

SearchOptions options_for(std::int64_t ranks, std::size_t finalists) {
  SearchOptions options;
  options.ranks = ranks;
  options.policies = {policy::named_policy("program"), policy::named_policy("lhs")};
  options.finalists = finalists;
  options.threads = 2;
  return options;
}

/// The shortest step of all choices in their usual order of axes, each planned whole.
double best_of_all(const train::ResolvedRun& run, const SearchOptions& options) {
  double best = std::numeric_limits<double>::infinity();
  for (const StepSetup& setup : setups_of(run.config, options.ranks, options.kept)) {
    train::ResolvedRun one = run;
    one.config = with_setup(one.config, setup);
    for (const policy::NamedPolicy& policy : options.policies) {
      const simulate::Report report = simulate::report_plan(train::planning_problem(one), policy);
      if (report.planned()) best = std::min(best, report.step_ns());
    }
  }
  return best;
}

TEST(Search, FindsWhatPlanningEveryChoiceFinds) {
  train::ResolvedRun run = small_run(0);
  for (const std::int64_t ranks : {4, 6}) {
    run.config.global_batch = 2 * ranks;
    SearchOptions options = options_for(ranks, 6);
    options.kept = {"axis-order"};
    if (ranks == 6) options.kept.insert(options.kept.end(), {"recompute", "zero-1"});  // it has more grids
    const SearchResult result = search_configurations(run, options, [](const Status&) {});
    ASSERT_FALSE(result.configurations.empty());
    const Configuration& first = result.configurations.front();
    EXPECT_TRUE(first.exact);
    EXPECT_LE(first.step_ns, 1.02 * best_of_all(run, options)) << to_string(first.setup);
    EXPECT_GE(first.step_ns, first.least_ns);
  }
}

TEST(Search, KeepsTheMemory) {
  const SearchResult free = search_configurations(small_run(0), options_for(8, 4), [](const Status&) {});
  const std::int64_t limit = free.configurations.front().memory_bytes * 3 / 4;
  const SearchResult limited = search_configurations(small_run(limit), options_for(8, 4), [](const Status&) {});
  for (const Configuration& each : limited.configurations) {
    EXPECT_TRUE(!each.exact || each.memory_bytes <= limit) << to_string(each.setup);
  }
  EXPECT_GT(limited.too_large, free.too_large);
  EXPECT_GE(limited.configurations.front().step_ns, free.configurations.front().step_ns);
  EXPECT_THROW(search_configurations(small_run(1 << 20), options_for(8, 4), [](const Status&) {}), UserError);
}

TEST(Search, TellsHowManyRanksMayHoldTheModel) {
  const auto refusal = [](std::int64_t memory) {
    return testing::message_of<UserError>(
        [&] { search_configurations(small_run(memory), options_for(2, 2), [](const Status&) {}); });
  };
  const auto parameters = small_run(0).config.model.parameters();
  // bf16 with moments and a master copy takes 14 bytes a parameter; the step's activations are small beside them.
  const std::string few = refusal(14 * parameters / 3);
  EXPECT_TRUE(testing::has_parts(few, {"2 ranks needs", "--ranks 4 or more"})) << few;
  const std::string many = refusal(14 * parameters / 12);
  EXPECT_TRUE(testing::has_parts(many, {"--ranks 16 or more"})) << many;
  EXPECT_TRUE(testing::has_parts(refusal(1 << 10), {"fix: more --ranks"}));
}

TEST(Search, NeedsLayersThatAreAlike) {
  train::RunConfig config;
  config.model_name = train::kCustomModel;
  config.model.family = ops::Family::qwen3_moe;
  config.model.experts = 4;
  config.model.dense_layers = ops::LayerSet({1});
  config.global_batch = 4;
  EXPECT_TRUE(testing::refuses([&] { open_search(config); }, {"model.dense-layers = 1", "equal layers"}));
}

// Steps of fewer layers have the mean of all layers' loads: λ is 1 and 2 on two ranks here.
TEST(Search, LayersOfUnevenLoadsAreMadeAlike) {
  const testing::TemporaryFolder folder;
  train::RunConfig config;
  train::set_key(config, "model", "moe-tiny", "test");
  config.model.layers = 2;
  config.model.experts = 4;
  config.expert_load = folder.write("experts.jsonl",
                                    "{\"step\":0,\"steps\":1,\"layers\":[0,1],\"tokens\":[[1,3,3,1],[5,3,0,0]],"
                                    "\"margin\":[1,1]}\n");
  train::ResolvedRun run = open_search(config);
  run.config.grid = {.z = 2, .expert = 2};
  run.config.model.layers = 1;
  EXPECT_DOUBLE_EQ(train::row_factors(run).of(0), 1.5);
  config.model.layers = 3;
  EXPECT_TRUE(testing::refuses([&] { open_search(config); }, {"has loads of 2 layers"}));
}

// Recomputation and resharding are tried where the memory is short, however little.
TEST(Search, LeavesOutNothingThatAShortMemoryNeeds) {
  train::ResolvedRun run = small_run(0);
  run.config.model.vocab = 8000;  // logits count
  const auto first = [&](const KeptKeys& kept) {
    SearchOptions options = options_for(8, 6);
    options.kept = kept;
    return search_configurations(run, options, [](const Status&) {}).configurations[0];
  };
  const auto needed = static_cast<double>(first({}).memory_bytes);
  for (const double share : {0.55, 0.85}) {
    run.config.memory = static_cast<std::int64_t>(share * needed);
    run.config.recompute = train::Recompute::block;
    run.config.reshard_after_forward = true;
    const Configuration free = first({}), kept = first({"recompute"}),
                        both = first({"recompute", "reshard-after-forward"});
    EXPECT_LE(free.step_ns, 1.01 * kept.step_ns) << share << ": " << to_string(kept.setup);
    EXPECT_LE(free.step_ns, 1.01 * both.step_ns) << share << ": " << to_string(both.setup);
  }
}

// A grid with stages is planned by the schedules of pipelines, and simulates to the same step.
TEST(Search, TriesPipelineStages) {
  train::ResolvedRun run = small_run(0);
  SearchOptions options = options_for(4, 40);
  options.kept = {"axis-order", "recompute", "zero-1", "reshard-after-forward"};
  options.pipes = {1, 2, 4};
  options.schedules = {policy::named_policy("1f1b"), policy::named_policy("zb-h1")};
  const SearchResult result = search_configurations(run, options, [](const Status&) {});
  std::int64_t with_stages = 0;
  for (const Configuration& each : result.configurations) {
    if (each.setup.grid.pipe == 1 || !each.exact) continue;
    ++with_stages;
    EXPECT_EQ(each.setup.grid.ranks(), 4) << to_string(each.setup);
    EXPECT_GE(each.step_ns, each.least_ns) << to_string(each.setup);
    ASSERT_NE(each.report, nullptr);
    const train::ResolvedRun again = train::resolve(config_of(result, each), 0);
    const simulate::Report report = simulate::report_plan(train::planning_problem(again), again.policy);
    EXPECT_EQ(report.step_ns(), each.step_ns) << to_string(each.setup);
    EXPECT_EQ(report.memory_bytes(), each.memory_bytes) << to_string(each.setup);
  }
  EXPECT_GE(with_stages, 2);
  // A search without stages finds nothing faster.
  options.pipes = {1};
  const SearchResult plain = search_configurations(run, options, [](const Status&) {});
  EXPECT_LE(result.configurations.front().step_ns, plain.configurations.front().step_ns);
  EXPECT_NE(results_of(result, 100).json().text().find("\"limited_by\":\"bubble\""), std::string::npos);
  EXPECT_NE(results_of(result, 100).text({}).plain().find("pipe=2"), std::string::npos);
}

TEST(Search, DoesNotDependOnThreads) {
  std::vector<std::string> texts;
  for (const int threads : {1, 3}) {
    SearchOptions options = options_for(8, 3);
    options.threads = threads;
    const SearchResult result = search_configurations(small_run(0), options, [](const Status&) {});
    texts.push_back(results_of(result, 1000).json().text());
  }
  EXPECT_EQ(texts[0], texts[1]);
}

TEST(Search, CountsEveryChoiceOnce) {
  const SearchOptions options = options_for(8, 3);
  const train::ResolvedRun run = small_run(0);
  const SearchResult result = search_configurations(run, options, [](const Status&) {});
  std::int64_t orders = 0;
  for (const StepSetup& setup : setups_of(run.config, 8, {})) orders += std::ssize(axis_orders(setup.grid));
  EXPECT_EQ(result.choices, orders);
  EXPECT_EQ(std::ssize(result.configurations), result.estimated);
  EXPECT_LE(result.estimated + result.too_slow + result.too_large, result.choices);
}

TEST(Search, TellsWhyOneBeatsAnother) {
  const SearchResult result = search_configurations(small_run(0), options_for(8, 3), [](const Status&) {});
  const std::string why = why_text(result, 1, 2);
  for (const char* part : {"step", "computing alone", "communication exposed", "memory"}) {
    EXPECT_NE(why.find(part), std::string::npos) << why;
  }
  EXPECT_THROW(why_text(result, 1, result.configurations.size() + 1), UserError);
  EXPECT_THROW(why_text(result, 0, 1), UserError);
  EXPECT_THROW(why_text(result, 1, result.configurations.size()), UserError);  // estimated
  const std::vector<Configuration> front = pareto_front(result.configurations);
  ASSERT_FALSE(front.empty());
  for (std::size_t i = 1; i < front.size(); ++i) {
    EXPECT_GT(front[i].memory_bytes, front[i - 1].memory_bytes);
    EXPECT_LT(front[i].step_ns, front[i - 1].step_ns);
  }
  EXPECT_NE(results_of(result, 1000).picture().svg().find("</svg>"), std::string::npos);
}

}  // namespace
}  // namespace weft::study
