// A small configuration for tests that measure a step, and its in-process ranks.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "runtime/policy/catalog/policies.h"
#include "tests/ops/tiny_model.h"
#include "tests/runtime/comm/ranks.h"
#include "train/config/resolved_run.h"

namespace weft::testing {

// Vectors of 64 bytes and more, so that some join a bucket, in blocks that every axis divides.
inline train::RunConfig benchmark_config(ops::Family family, const graph::Grid& grid) {
  train::RunConfig config;
  config.model_name = "custom";
  config.model =
      of_family(family, {.layers = 2, .hidden = 32, .heads = 4, .kv_heads = 2, .ffn = 48, .vocab = 37, .context = 8});
  config.grid = grid;
  config.ranks = grid.ranks();
  config.micro_batch = 1;
  config.global_batch = 2 * grid.batch_ranks();
  config.steps = 10;
  config.warmup = 3;
  config.lr = 1e-2;
  config.dropout = 0.2F;
  config.clip = 0.5F;
  config.threads = 1;
  config.run_dir = "unused";
  return config;
}

inline std::vector<policy::NamedPolicy> named_policies(const std::vector<std::string>& names) {
  std::vector<policy::NamedPolicy> policies;
  for (const std::string& name : names) policies.push_back(policy::named_policy(name));
  return policies;
}

inline void on_ranks(const train::RunConfig& config,
                     const std::function<void(comm::World&, const train::ResolvedRun&)>& body) {
  const train::ResolvedRun run = train::resolve(config, 0);
  on_ranks(static_cast<int>(run.config.ranks), [&](comm::World& world) { body(world, run); });
}

}  // namespace weft::testing
