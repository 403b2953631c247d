// bench/overlap_step: its help has examples, it refuses with a fix, and its sums are right. Needs neither PyTorch nor a
// network of its own.
#include <gtest/gtest.h>

#include "tests/base/messages.h"
#include "tests/tools/run_command.h"

namespace weft::tools {
namespace {

constexpr const char* kScript = WEFT_SOURCE_DIR "/bench/overlap_step";

TEST(OverlapStep, HelpHasExamples) {
  const testing::CommandResult help = testing::run({kScript, "--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_TRUE(testing::contains(help.output, "examples:\n  bench/overlap_step ")) << help.output;
  EXPECT_EQ(help.errors, "");
}

TEST(OverlapStep, RefusesAndSumsRight) {
  const testing::CommandResult result = testing::run({kScript, "--self-test"});
  EXPECT_EQ(result.exit_code, 0) << result.output << result.errors;
}

}  // namespace
}  // namespace weft::tools
