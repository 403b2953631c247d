// The tasks that give a recorded step its length.
#include "inspect/drawing/critical_path.h"

#include <gtest/gtest.h>

namespace weft::inspect {
namespace {

struct PathSample {
  plan::Recording recording;
  plan::RecordedStep step;

  std::uint32_t add(std::uint32_t stream, std::int64_t begin, std::int64_t end) {
    plan::RecordedTask task;
    task.stream = stream;
    recording.tasks.push_back(task);
    step.times.push_back({begin, end});
    return static_cast<std::uint32_t>(recording.tasks.size() - 1);
  }
  std::vector<std::uint32_t> chain() const { return critical_path(recording, step); }
};

TEST(CriticalPath, NoTasksHaveNone) {
  EXPECT_TRUE(PathSample().chain().empty());
}

TEST(CriticalPath, FollowsWhatEndedLast) {
  PathSample sample;
  const auto a = sample.add(0, 0, 10), b = sample.add(1, 0, 30), c = sample.add(0, 30, 40);
  sample.recording.edges = {{a, c}, {b, c}};
  EXPECT_EQ(sample.chain(), (std::vector<std::uint32_t>{b, c}));
}

TEST(CriticalPath, AStreamsOrderCountsAsAnEdge) {
  PathSample sample;
  const auto a = sample.add(0, 0, 10), b = sample.add(0, 10, 30), c = sample.add(0, 30, 35), d = sample.add(1, 0, 20);
  sample.recording.edges = {{a, c}, {d, c}};
  EXPECT_EQ(sample.chain(), (std::vector<std::uint32_t>{a, b, c}));
}

TEST(CriticalPath, EdgesFromTheStepBeforeDontCount) {
  PathSample sample;
  const auto a = sample.add(0, 0, 10), b = sample.add(1, 10, 20);
  sample.recording.edges = {{a, b, graph::EdgeKind::completes_before, graph::EdgeReason::read_after_write, 1}};
  EXPECT_EQ(sample.chain(), (std::vector<std::uint32_t>{b}));
}

TEST(CriticalPath, TimesWithoutLengthMakeNoCircle) {
  PathSample sample;
  const auto a = sample.add(0, 5, 5), b = sample.add(0, 5, 5), c = sample.add(1, 5, 5);
  sample.recording.edges = {{a, b}, {b, c}, {c, a}};
  EXPECT_LE(sample.chain().size(), 3U);
}

}  // namespace
}  // namespace weft::inspect
