#include "runtime/policy.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "runtime/checker.h"
#include "tests/runtime/random_graph.h"

namespace weft {
namespace {

TEST(Policies, AreMadeByTheirNames) {
  EXPECT_EQ(policy_names(), (std::vector<std::string>{"serial", "program"}));
  for (const std::string& name : policy_names()) EXPECT_EQ(make_policy(name)->name(), name);
}

TEST(Policies, AMistypedNameIsAnsweredWithTheNearest) {
  try {
    make_policy("serail");
    FAIL() << "accepted";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "unknown policy \"serail\"; expected one of serial, program\n  fix: write \"serial\"");
  }
  EXPECT_THROW(make_policy(""), UserError);
}

TEST(Policies, AllGiveSafePlansOfRandomGraphsAndTheSameOneTwice) {
  for (const std::string& name : policy_names()) {
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
      const auto graph = testing::random_graph(seed, {.channels = seed % 4});
      const PolicyOptions options{static_cast<int>(1 + seed % 3)};
      const Order order = make_policy(name)->order(*graph, options);
      EXPECT_EQ(order, make_policy(name)->order(*graph, options));
      for (const Violation& violation : check_plan(make_plan(graph, order, name))) ADD_FAILURE() << violation.message;
    }
  }
}

TEST(Policies, RefuseAnImpossibleNumberOfStreams) {
  const auto graph = testing::random_graph(1);
  for (const std::string& name : policy_names()) {
    EXPECT_THROW(make_policy(name)->order(*graph, {0}), UserError) << name;
  }
}

}  // namespace
}  // namespace weft
