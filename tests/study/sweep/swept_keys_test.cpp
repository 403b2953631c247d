#include <gtest/gtest.h>

#include "base/error.h"
#include "study/sweep/sweep.h"
#include "tests/base/messages.h"

namespace weft::study {
namespace {

using Words = std::vector<std::string>;
using Keys = std::vector<SweptKey>;

const Words known = {"grid", "micro-batch", "model", "model.layers", "ranks", "policy", "seed"};

Keys keys_of(const Words& words) {
  return swept_keys(words, known);
}

TEST(SweptKeys, GroupWordsByTheirKeys) {
  EXPECT_EQ(keys_of({"micro-batch=1", "2", "4"}), (Keys{{"micro-batch", {"1", "2", "4"}}}));
  EXPECT_EQ(keys_of({"micro_batch=1", "model.name=tiny", "small"}),
            (Keys{{"micro-batch", {"1"}}, {"model", {"tiny", "small"}}}));
  EXPECT_EQ(keys_of({"machine.network.latency=1e-6", "5e-6", "model.layers=2"}),
            (Keys{{"machine.network.latency", {"1e-6", "5e-6"}}, {"model.layers", {"2"}}}));
}

TEST(SweptKeys, TakeValuesWithEqualSigns) {
  EXPECT_EQ(keys_of({"grid=data=2", "z=2", "x=1,y=2", "ranks=2"}),
            (Keys{{"grid", {"data=2", "z=2", "x=1,y=2"}}, {"ranks", {"2"}}}));
}

TEST(SweptKeys, RefuseWhatTheyCantName) {
  const std::vector<std::pair<Words, std::string>> wrong = {
      {{"4"}, "has no key"},
      {{"micro-bath=1"}, "did you mean micro-batch?"},
      {{"ranks=1", "model.layrs=2"}, "did you mean model.layers?"},
      {{"ranks=1", "machine.network.latancy=2"}, "did you mean machine.network.latency?"},
      {{"ranks=1", "2", "1"}, "twice"},
      {{"ranks=1", "micro-batch=1", "ranks=2"}, "--over ranks=VALUE"},
      {{"policy=serial", "lhs"}, "--policies"},
      {{"seed=1", "2"}, "--seeds"}};
  for (const auto& [words, part] : wrong) {
    EXPECT_TRUE(testing::has_parts(testing::message_of<UserError>([&] { keys_of(words); }), {part}));
  }
}

}  // namespace
}  // namespace weft::study
