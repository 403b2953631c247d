// The pieces of the critical path last as long as the step.
#include "runtime/simulate/path_pieces.h"

#include <gtest/gtest.h>

#include <string>

#include "runtime/policy/catalog/policies.h"
#include "tests/runtime/simulate/explained_toy.h"

namespace weft::simulate {
namespace {

using testing::layers_step;

// Of every policy on a real graph's costs: the path is the whole step, and the sums agree.
TEST(PathPieces, PathsOfEveryPolicyAddUpToTheStep) {
  const testing::TimedStep layers = layers_step();
  for (const std::string& policy : policy::graph_policy_names()) {
    const Report report = report_plan(layers.problem, policy::named_policy(policy));
    ASSERT_TRUE(report.planned()) << policy << ": " << report.refusal;
    const Explanation explanation = explain(layers.problem, report, {"", 0, 100, false});
    double sum = 0;
    for (const PathPiece& piece : explanation.path) sum += piece.ns;
    EXPECT_NEAR(sum, report.step_ns(), 30) << policy;
    double exposed = 0;
    for (const ExposedCollective& one : explanation.collectives) exposed += one.exposed_ns;
    EXPECT_GE(exposed, static_cast<double>(report.first().overlap.exposed)) << policy;
  }
}

}  // namespace
}  // namespace weft::simulate
