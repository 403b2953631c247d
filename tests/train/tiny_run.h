// Whole training runs that take a fraction of a second: ranks as threads, a model of width 16, a text that tests write.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/base/temporary_folder.h"
#include "tests/ops/tiny_model.h"
#include "tests/runtime/comm/ranks.h"
#include "train/trainer.h"

namespace weft::testing {

/// 4,000 bytes of words that follow a rule a model can learn.
inline std::string tiny_text() {
  std::string text;
  for (unsigned i = 0; text.size() < 4000; i = i * 5 + 3) {
    for (const char* word : {"warp ", "weft ", "loom ", "yarn\n"}) {
      if ((i >> 4) % 3 != 1) text += word;
      i = i * 1664525 + 1013904223;
    }
  }
  return text;
}

/// A byte-level model on tiny_text(), with dropout, clipping and two micro-batches on up to four ranks.
inline train::RunConfig tiny_run(const TemporaryFolder& folder, ops::Family family) {
  if (!std::filesystem::exists(folder.path("text.txt"))) folder.write("text.txt", tiny_text());
  train::RunConfig config;
  config.model_name = "custom";
  config.model = tiny_model(family);
  config.model.vocab = 257;
  config.model.context = 16;
  config.run_dir = folder.path("run").string();
  config.data = folder.path("text.txt").string();
  config.steps = 10;
  config.warmup = 3;
  config.global_batch = 8;
  config.micro_batch = 1;
  config.dropout = 0.1F;
  config.clip = 0.5F;
  config.lr = 1e-2;
  config.threads = 1;
  return config;
}

/// A kind of run, as a test's parameter.
struct RunKind {
  ops::Family family;
  DType dtype;
  std::int64_t ranks;
};
inline std::string to_string(const RunKind& kind) {
  return fmt::format("{}_{}_{}Ranks", ops::to_string(kind.family), weft::to_string(kind.dtype), kind.ranks);
}

struct RunOutcome {
  int exit_code = 0;
  std::string errors;
  train::TrainResult result;
  std::map<std::string, std::vector<std::byte>> state;  // parameters and their optimizer state, of rank 0
};

inline std::map<std::string, std::vector<std::byte>> trained_state(const execute::Program& program) {
  program.state_to_host();
  std::map<std::string, std::vector<std::byte>> state;
  for (const graph::Tensor& tensor : program.plan("train").graph->tensors()) {
    if (tensor.role != graph::Role::parameter && tensor.role != graph::Role::optimizer_state) continue;
    const std::byte* data = program.state().data(tensor.name);
    state[tensor.name] = {data, data + tensor.bytes()};
  }
  return state;
}

/// The first tensor that differs in any bit; "" if none does.
inline std::string first_difference(const std::map<std::string, std::vector<std::byte>>& a,
                                    const std::map<std::string, std::vector<std::byte>>& b) {
  if (a.size() != b.size()) return "the number of tensors";
  for (const auto& [name, bytes] : a) {
    if (!b.contains(name) || b.at(name) != bytes) return name;
  }
  return "";
}

/// Trains on config.ranks threads. Of `replicas` all ranks must end with the same state.
inline RunOutcome train_run(const train::RunConfig& config, const execute::MakeExecutor& make_executor = nullptr,
                            bool replicas = true) {
  const train::ResolvedRun run = train::resolve(config, 0);
  RunOutcome outcome;
  std::vector<std::map<std::string, std::vector<std::byte>>> states(static_cast<std::size_t>(run.config.ranks));
  const RanksEnd end = end_of_ranks(static_cast<int>(run.config.ranks), [&](comm::World& world) {
    const auto setup = train::set_up_training(world, run, make_executor);
    train::TrainResult result = train::run_training(*setup);
    if (world.rank() == 0) outcome.result = std::move(result);
    states[static_cast<std::size_t>(world.rank())] = trained_state(*setup->program);
  });
  outcome.exit_code = end.code;
  outcome.errors = end.errors;
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  for (const auto& state : states) EXPECT_EQ(replicas ? first_difference(state, states.front()) : "", "");
  outcome.state = std::move(states.front());
  return outcome;
}

/// The result of ranks that need not end with the same state.
inline train::TrainResult trained_on_grid(const train::RunConfig& config,
                                          const execute::MakeExecutor& make_executor = nullptr) {
  return train_run(config, make_executor, /*replicas=*/false).result;
}

/// The fingerprint of rank 0's plan of a training step.
inline std::uint64_t plan_fingerprint(const train::RunConfig& config) {
  const train::ResolvedRun run = train::resolve(config, 0);
  std::uint64_t fingerprint = 0;
  on_ranks(static_cast<int>(run.config.ranks), [&](comm::World& world) {
    const auto setup = train::set_up_training(world, run);
    if (world.rank() == 0) fingerprint = setup->program->plan("train").fingerprint;
  });
  return fingerprint;
}

/// The lines of a run's metrics.jsonl.
inline std::vector<nlohmann::json> metrics_of(const std::filesystem::path& run_dir) {
  std::istringstream lines(TemporaryFolder::read(run_dir / "metrics.jsonl"));
  std::vector<nlohmann::json> metrics;
  for (std::string line; std::getline(lines, line);) metrics.push_back(nlohmann::json::parse(line));
  return metrics;
}

/// Both have the same steps with the same results.
inline void expect_equal_metrics(const std::vector<nlohmann::json>& found,
                                 const std::vector<nlohmann::json>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    for (const char* key : {"step", "loss", "grad_norm", "lr", "val_loss"}) {
      EXPECT_EQ(found[i].value(key, nlohmann::json()), expected[i].value(key, nlohmann::json())) << key << " " << i;
    }
  }
}

/// One key of every line.
inline std::vector<double> metric(const std::filesystem::path& run_dir, std::string_view key) {
  std::vector<double> values;
  for (const nlohmann::json& line : metrics_of(run_dir)) values.push_back(line.at(std::string(key)).get<double>());
  return values;
}

}  // namespace weft::testing
