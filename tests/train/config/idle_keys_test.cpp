// Keys without an effect, on command lines and elsewhere.
#include "train/config/idle_keys.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tests/base/messages.h"

namespace weft::train {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

/// The key that is refused, "" if none is: the settings of a command line.
std::string idle_key(const Pairs& pairs, KeyUse use = {}) {
  std::vector<Setting> settings;
  for (const auto& [key, value] : pairs) settings.push_back({key, value, "--" + key});
  RunConfig config;
  apply_command_line(config, settings);
  const std::string message = testing::message_of<UserError>([&] { refuse_idle_keys(config, settings, use); });
  return message.substr(0, message.find(" = "));
}

TEST(IdleKeys, AreRefusedByName) {
  const std::pair<std::string, std::string> llama{"model", "llama-tiny"};
  for (const Pairs& wrong : std::vector<Pairs>{{{"model.rope-theta", "50000"}},
                                               {{"model.rope-scaling", "yarn"}},
                                               {{"model.rope-low-freq-factor", "3"}, llama},
                                               {{"model.rope-attention-factor", "2"}, llama},
                                               {{"bf16-products", "fp32"}},
                                               {{"bf16-products", "fp32"}, {"device", "cuda"}, {"dtype", "bf16"}},
                                               {{"cuda-graph", "true"}},
                                               {{"attention-workspace", "1GiB"}},
                                               {{"attention-gradient", "fastest"}},
                                               {{"attention-gradient", "fastest"}, {"device", "cuda"}},
                                               {{"tf32", "true"}},
                                               {{"gpu-kernels", "early-start"}},
                                               {{"tf32", "true"}, {"device", "cuda"}, {"dtype", "bf16"}},
                                               {{"nccl", "channels=2"}},
                                               {{"nccl", "channels=2"}, {"device", "cuda"}, {"communicator", "local"}},
                                               {{"checkpoint-copy", "beside"}},
                                               {{"checkpoint-copy", "beside"}, {"device", "cuda"}, {"save", "false"}},
                                               {{"min-lr", "1e-4"}, {"schedule", "constant"}},
                                               {{"keep-every", "10"}, {"save", "false"}},
                                               {{"save-every", "10"}, {"save", "false"}},
                                               {{"val-split", "documents"}, {"val-data", "held.txt"}}}) {
    EXPECT_EQ(idle_key(wrong), wrong.front().first);
  }
}

TEST(IdleKeys, WhatCountsOrIsTheDefaultIsTaken) {
  for (const Pairs& right :
       std::vector<Pairs>{{{"model.rope-theta", "50000"}, {"model", "llama-tiny"}},
                          {{"model.rope-theta", "10000"}},
                          {{"bf16-products", "auto"}},
                          {{"bf16-products", "fp32"}, {"dtype", "bf16"}},
                          {{"attention-gradient", "fastest"}, {"device", "cuda"}, {"dtype", "bf16"}},
                          {{"tf32", "true"}, {"device", "cuda"}},
                          {{"nccl", "channels=2"}, {"device", "cuda"}},
                          {{"nccl", "default"}},
                          {{"min-lr", "1e-4"}},
                          {{"save-every", "10"}}}) {
    EXPECT_EQ(idle_key(right), "") << right.front().first;
  }
}

TEST(IdleKeys, LoadsOfExpertsNeedExpertsOfRanksAndCosts) {
  using Load = std::tuple<std::string, std::string, KeyUse>;
  const KeyUse grids{.tries_grids = true}, laptop{.takes_laptop = true};
  const auto idle = [](const std::string& grid, const std::string& machine, KeyUse use) {
    return idle_key({{"expert-load", "zipf:1"}, {"model", "moe-tiny"}, {"grid", grid}, {"machine", machine}}, use);
  };
  for (const auto& [grid, machine, use] :
       {Load{"z=2", "dgx-h100", {}}, {"z=2", "", laptop}, {"z=2,expert=2", "", {}}, {"z=2", "", grids}}) {
    EXPECT_EQ(idle(grid, machine, use), "expert-load") << grid << " " << machine;
  }
  for (const auto& [grid, machine, use] : {Load{"z=2,expert=2", "dgx-h100", {}},
                                           {"z=2,expert=2", "", laptop},
                                           {"auto", "dgx-h100", {}},
                                           {"z=2", "dgx-h100", grids}}) {
    EXPECT_EQ(idle(grid, machine, use), "") << grid << " " << machine;
  }
  EXPECT_EQ(idle_key({{"expert-load", "balanced"}, {"model", "moe-tiny"}}), "");
}

}  // namespace
}  // namespace weft::train
