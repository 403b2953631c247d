// CONTRIBUTING.md's examples of an operation and of a policy: they compile, they work, and the page has them.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "graph/named_accesses.h"
#include "runtime/plan/checker.h"
#include "tests/kernels/reference.h"
#include "tests/runtime/contributing_examples.h"
#include "tests/runtime/order_of.h"
#include "tests/runtime/policy/builtin/training_toy.h"

namespace weft {
namespace {

std::string text_of(const std::string& file) {
  std::ifstream in(WEFT_SOURCE_DIR "/" + file);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(Contributing, ExamplesAreOnThePageWordForWord) {
  const std::string page = text_of("CONTRIBUTING.md"), code = text_of("tests/runtime/contributing_examples.h");
  const std::string begin = "```cpp\n", end = "```\n";
  int blocks = 0;
  for (std::size_t at = page.find(begin); at != std::string::npos; at = page.find(begin, at), ++blocks) {
    at += begin.size();
    const std::string block = page.substr(at, page.find(end, at) - at);
    EXPECT_NE(code.find(block), std::string::npos) << block;
  }
  EXPECT_EQ(blocks, 4);
}

TEST(Contributing, TheOperationRunsByItsSchema) {
  const graph::Square operation{6};
  const graph::View view{graph::TensorId(std::size_t{0}), 0, 2, 3, 3};
  const auto accesses = graph::accesses_of(operation, {{"y", graph::write(view)}, {"x", graph::read(view)}});
  ASSERT_EQ(accesses.size(), 2);
  EXPECT_EQ(accesses[0].mode, graph::AccessMode::read);
  EXPECT_EQ(operation.work(2).bytes, 24);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    cpu::testing::Tensor x(dtype, 2, 3, {0, 1, -2, 3, 0.5, -1.5}), y(dtype, 2, 3, 2);
    const std::vector<cpu::Matrix> slots = {x.view(), y.view()};
    cpu::Workers workers(1);
    execute::SquareCalls<cpu::Workers>{workers}(execute::Call(operation, slots));
    EXPECT_EQ(y.values(), (cpu::testing::Values{0, 1, 4, 9, 0.25, 2.25}));
  }
}

TEST(Contributing, ThePolicyOrdersAStep) {
  const auto graph = testing::training_step(3);
  const plan::Order order = testing::order_of(policy::LateSumsPolicy(), *graph);
  EXPECT_EQ(testing::sequence_of(*graph, order),
            "g0 f0 r0 g1 f1 r1 g2 f2 r2 loss di2 i2 dw2 s2 di1 i1 dw1 s1 di0 i0 dw0 s0 d2 d1 d0 u0 u1 u2");
  EXPECT_TRUE(plan::check_plan(plan::make_plan(graph, order, "late-sums")).empty());
}

}  // namespace
}  // namespace weft
