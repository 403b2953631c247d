// bench/overlap_step: its help has examples, it refuses with a fix, and its sums are right. Needs neither PyTorch nor a
// network of its own.
#include <gtest/gtest.h>

#include "tests/base/messages.h"
#include "tests/tools/run_command.h"

namespace weft::tools {
namespace {

constexpr const char* kScript = WEFT_SOURCE_DIR "/bench/overlap_step";

TEST(OverlapStep, HelpHasExamples) {
  const testing::CommandResult help = testing::succeeded(testing::run({kScript, "--help"}));
  EXPECT_TRUE(testing::contains(help.output, "examples:\n  bench/overlap_step ")) << help.output;
  EXPECT_EQ(help.errors, "");
}

TEST(OverlapStep, RefusesAndSumsRight) {
  testing::succeeded(testing::run({kScript, "--self-test"}));
}

}  // namespace
}  // namespace weft::tools
