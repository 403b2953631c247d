#include "runtime/policy/builtin/random.h"

#include <gtest/gtest.h>

#include <set>

#include "runtime/policy/catalog/policies.h"
#include "tests/runtime/order_of.h"
#include "tests/runtime/policy/builtin/training_toy.h"

namespace weft::policy {
namespace {

TEST(RandomPolicy, DrawsEveryTopologicalOrder) {
  testing::ToyGraph toy;
  const graph::View x = toy.tensor("x", 8), y = toy.tensor("y", 8);
  toy.compute("a", {graph::write(x)});
  toy.compute("b", {graph::read(x)});
  toy.collective("c", graph::Channel::data, {graph::write(y)});
  const auto graph = toy.build();
  std::set<std::string> seen;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    seen.insert(testing::sequence_of(*graph, testing::order_of(weft::policy::RandomPolicy(), *graph, {.seed = seed})));
  }
  EXPECT_EQ(seen, (std::set<std::string>{"a b c", "a c b", "c a b"}));
}

TEST(RandomPolicy, ItsParameterStandsAboveTheOptionsSeed) {
  const auto graph = testing::training_step(3);
  const auto order = [&](const char* policy, std::uint64_t seed) {
    return testing::order_of(*make_policy(policy), *graph, {.compute_streams = 2, .seed = seed});
  };
  EXPECT_EQ(order("random:seed=7", 1), order("random:seed=7", 2));
  EXPECT_EQ(order("random:seed=7", 1), order("random", 7));
  EXPECT_NE(order("random", 1), order("random", 2));
  EXPECT_EQ(order("random", 7).reasons,
            (std::vector<plan::Reason>{{.table = &RandomPolicy::kReasons, .numbers = {7}}}));
}

}  // namespace
}  // namespace weft::policy
