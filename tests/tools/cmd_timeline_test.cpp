// `weft timeline` as a process: text, pictures, comparisons and refusals.
#include <gtest/gtest.h>

#include "tests/base/messages.h"
#include "tests/tools/small_step.h"

namespace weft::tools {
namespace {

class TimelineCommand : public testing::SmallStep {};

TEST_F(TimelineCommand, PrintsTextWithoutAPicture) {
  const testing::CommandResult result = testing::succeeded(weft("timeline", {"--ranks", "2"}));
  EXPECT_TRUE(
      has_parts(result.output, {"policy program: step ", "compute0", "data", "memory", "lower bound", "exposed"}));
  EXPECT_EQ(weft("timeline", {"--ranks", "2"}).output, result.output);
}

TEST_F(TimelineCommand, DrawsSvgAndPng) {
  testing::succeeded(weft("timeline", {"--ranks", "2", "-o", "a.svg"}));
  const std::string svg = read("a.svg");
  EXPECT_TRUE(has_parts(svg, {"<svg", "lower bound", "critical path: ", "peak ", "rank 0"}));
  ASSERT_EQ(weft("timeline", {"--ranks", "2", "-o", "a.png"}).exit_code, 0);
  EXPECT_TRUE(read("a.png").starts_with("\x89PNG"));
}

TEST_F(TimelineCommand, ComparesPolicies) {
  const testing::CommandResult result =
      testing::succeeded(weft("timeline", {"--ranks", "2", "--compare", "serial", "program", "--text", "-o", "a.svg"}));
  EXPECT_TRUE(has_parts(result.output, {"policy serial: step ", "policy program: step "}));
  const std::string svg = read("a.svg");
  EXPECT_LT(svg.find("policy serial"), svg.find("policy program"));
}

TEST_F(TimelineCommand, RefusesWhatItCannotDraw) {
  expect_refused("timeline", {"-o", "a.pdf"}, {".svg or .png"});
  expect_refused("timeline", {"--compare", "serial", "programm"}, {"program"});
}

}  // namespace
}  // namespace weft::tools
