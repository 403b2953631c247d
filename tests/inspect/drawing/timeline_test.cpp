// The terminal timeline character by character, the necessary parts of a timeline's picture, and the tasks that give a
// step its length.
#include "inspect/drawing/timeline.h"

#include <gtest/gtest.h>

#include <cmath>
#include <regex>

#include "inspect/drawing/colors.h"
#include "tests/base/messages.h"
#include "tests/inspect/drawing/count_matches.h"
#include "tests/runtime/trace_sample.h"

namespace weft::inspect {
namespace {

/// A step of each rank that begins at one of `begins`.
plan::Recording sample(const std::vector<std::int64_t>& begins, std::int64_t scale) {
  std::vector<plan::RankTrace> ranks;
  for (const std::int64_t begin : begins) {
    ranks.push_back({static_cast<int>(ranks.size()), {testing_sample::sample_step(3, begin, scale)}});
  }
  return plan::record(testing_sample::sample_plan(), ranks, 2);
}

std::string text(const plan::Recording& recording, int columns) {
  return timeline_text(recording, recording.ranks[0].steps[0], columns);
}

TEST(TimelineText, OneCharacterForTwoPercent) {
  // 8 for the name, 9 for the frame, 50 cells of 2 units.
  EXPECT_EQ(text(sample({5000}, 1'000'000), 67),
            "compute0 |####################..........##########..........|  60 %\n"
            "compute1 |...............##########.........................|  20 %\n"
            "data     |....................=====!!!!!=====..===!!!!!!!!!!|  55 %\n"
            "memory   |55555555555555599999999999555599999999999555555555| 32 B\n"
            "step 100.00 ms: computing 70.00 ms, communicating 55.00 ms, of which exposed 30.00 ms\n"
            "(# computing, = communicating, ! exposed, + busy for less than half of the time, . idle)\n");
}

TEST(TimelineText, ShortTasksStayVisible) {
  plan::Recording recording = sample({0}, 1'000'000);
  recording.ranks[0].steps[0].times[1] = {0, 1000};
  EXPECT_NE(text(recording, 67).find("compute1 |+................................................."),
            std::string::npos);
}

TEST(TimelineText, IsNeverNarrowerThanReadable) {
  EXPECT_EQ(text(sample({0}, 1), 3).find('\n'), 40U);
}

TEST(TimelineText, AStepWithoutTimeIsIdle) {
  const std::string idle = text(sample({0}, 0), 50);
  EXPECT_NE(idle.find("|....."), std::string::npos);
  EXPECT_EQ(idle.find("|#"), std::string::npos);
}

std::string picture(const std::vector<TimelinePart>& parts) {
  return timeline_picture(parts).svg();
}

TEST(TimelinePicture, HoldsEveryTaskOfEveryRankAndItsExposedTimes) {
  const plan::Recording recording = sample({1000, 2000}, 1000);
  const std::string svg = picture({{"Step 3, policy by <hand>", &recording}});
  for (const char* name : {"b", "r", "c", "s"}) {
    EXPECT_EQ(testing::count_matches(svg, std::string("<title>") + name + "\n"), 2U) << name;
  }
  EXPECT_EQ(testing::count_matches(svg, "<title>exposed 0.010 ms</title>"), 2U);  // [50, 60)
  EXPECT_EQ(testing::count_matches(svg, "<title>exposed 0.020 ms</title>"), 2U);  // [80, 100)
  EXPECT_TRUE(has_parts(svg, {"rank 1", "Step 3, policy by &lt;hand&gt;",
                              "<title>mb0.L1.a &quot;&lt;&amp;&gt;&quot;\n0.000 to 0.040 ms, 0.040 ms</title>"}));
  // The first task of rank 1 begins 1 of 101 units to the right.
  EXPECT_TRUE(has_parts(
      svg, {"\n0.001 to 0.041 ms, 0.040 ms</title><rect x=\"107.92\"", style_of(graph::KindClass::gemm).fill}));
  EXPECT_EQ(testing::count_matches(svg, "<(g|svg|text|title)[ >]"),
            testing::count_matches(svg, "</(g|svg|text|title)>"));
  EXPECT_EQ(svg, picture({{"Step 3, policy by <hand>", &recording}}));
}

TEST(TimelinePicture, ShowsTheCriticalPathTheBoundAndTheMemorysPeak) {
  const plan::Recording recording = sample({0}, 1000);
  const std::string svg = picture({{"one", &recording, 90'000}});
  // a, r, c, s; they overlap on paper, so nothing is waited for.
  EXPECT_TRUE(has_parts(svg, {"<title>critical path: 4 tasks, waiting 0.000 ms\n0.060 ms on compute0\n0.055 ms on data",
                              "lower bound 90.0 us", "peak 32 B of scratch at 0.03 ms"}));
  EXPECT_EQ(picture({{"one", &recording}}).find("lower bound"), std::string::npos);
}

TEST(TimelinePicture, ANarrowBarShowsTheEndOfItsName) {
  plan::Recording recording = sample({0}, 1000);
  recording.tasks[0].name = "mb0.L3.attn.qkv.bwd.gemm_dw";
  // The first bar's width in pixels is its share of 800.
  const auto shown = [&](std::int64_t percent) {
    recording.ranks[0].steps[0].times[0] = {0, percent * 1000};
    const std::string svg = picture({{"one", &recording}});
    std::smatch match;
    const std::regex first(
        "<title>mb0.L3.attn.qkv.bwd.gemm_dw\n[^<]*</title><rect[^>]*/>\n(<text[^>]*>([^<]*)</text>)?");
    EXPECT_TRUE(std::regex_search(svg, match, first)) << svg;
    return match[2].str();
  };
  EXPECT_EQ(shown(25), "mb0.L3.attn.qkv.bwd.gemm_dw");
  EXPECT_EQ(shown(12), "L3 attn.qkv dW");
  EXPECT_EQ(shown(9), "L3 qkv dW");
  EXPECT_EQ(shown(7), "qkv dW");
  EXPECT_EQ(shown(3), "dW");
  EXPECT_EQ(shown(1), "");
}

// A chain that goes to and fro between two rows all the time covers none of the bars.
TEST(TimelinePicture, TheCriticalPathIsThin) {
  plan::Recording recording;
  recording.streams = {{"compute0", true}, {"x", false}};
  plan::RecordedStep step{.step = 0, .begin = 0, .end = 0, .times = {}};
  constexpr int kTasks = 4000;
  for (int i = 0; i < kTasks; ++i) {
    const bool computes = i % 2 == 0;
    recording.tasks.push_back({.name = "t" + std::to_string(i), .stream = computes ? 0U : 1U});
    step.times.push_back({i * 10, i * 10 + 10});
    if (i > 0) recording.edges.push_back({static_cast<std::uint32_t>(i - 1), static_cast<std::uint32_t>(i)});
  }
  step.end = kTasks * 10;
  recording.ranks = {{0, {step}}};
  const std::string svg = picture({{"to and fro", &recording}});
  const std::size_t begin = svg.find("<title>critical path: 4000 tasks");
  ASSERT_NE(begin, std::string::npos);
  const std::string path = svg.substr(begin, svg.find("</g>", begin) - begin);
  const std::regex line(
      "points=\"([0-9.]+),([0-9.]+) ([0-9.]+),([0-9.]+)\"[^>]*stroke=\"[^\"]*\"( stroke-width=\"([0-9.]+)\")?");
  double between = 0, along = 0, ink = 0;
  for (std::sregex_iterator it(path.begin(), path.end(), line), end; it != end; ++it) {
    const double dx = std::stod((*it)[3]) - std::stod((*it)[1]),
                 dy = std::abs(std::stod((*it)[4]) - std::stod((*it)[2]));
    dy > 0 ? ++between : along += dx;
    ink += (dx + dy) * ((*it)[6].matched ? std::stod((*it)[6]) : 1);
  }
  EXPECT_GT(between, 50);
  EXPECT_LT(between, 101);          // 800 pixels, 8 apart
  EXPECT_GT(along, 2 * 790);        // both rows from end to end
  EXPECT_LT(ink, 0.25 * 800 * 41);  // of the two rows' bars
}

// Of a run with every kind of task: nothing reaches over the edge, and letters of 11 pixels are at least 9 high on a
// page of 880 pixels.
TEST(TimelinePicture, FitsAPage) {
  plan::Recording recording;
  recording.streams = {{"compute0", true}, {"z_scatter", false}};
  plan::RecordedStep step;
  for (std::size_t kind = 0; kind < kKindStyles.size(); ++kind) {
    recording.tasks.push_back({.name = "t", .style = kKindStyles[kind].kind, .stream = kind % 2 == 0 ? 0U : 1U});
    step.times.push_back({static_cast<std::int64_t>(kind) * 10, static_cast<std::int64_t>(kind) * 10 + 10});
  }
  step.end = 80;
  recording.ranks = {{0, {step}}};
  const std::vector<TimelinePart> parts = {{"every kind", &recording}};
  const Picture drawn = timeline_picture(parts);
  EXPECT_GE(11 * 880 / drawn.width(), 9);
  const std::string svg = drawn.svg();
  const std::regex label("<text x=\"([0-9.]+)\" y=\"[0-9.]+\">([^<]+)</text>");
  std::size_t labels = 0;
  for (std::sregex_iterator found(svg.begin(), svg.end(), label), end; found != end; ++found, ++labels) {
    EXPECT_LE(std::stod((*found)[1]) + 6.2 * static_cast<double>((*found)[2].length()), drawn.width()) << (*found)[2];
  }
  EXPECT_GE(labels, 10U);  // eight kinds, exposed communication and the critical path
}

TEST(TimelinePicture, PartsShareOneAxis) {
  const plan::Recording fast = sample({0}, 1000), slow = sample({5000}, 2000);
  const std::string svg = picture({{"fast", &fast}, {"slow", &slow}});
  EXPECT_TRUE(has_parts(svg, {">fast</text>", ">slow</text>"}));
  // The fast step's last task ends in the middle: [75, 100) of 200 units of 4 pixels.
  EXPECT_NE(svg.find("<rect x=\"400\" y=\"116\" width=\"100\""), std::string::npos) << svg;
}

TEST(TimelinePicture, WhatIsNarrowerThanAPixelIsMerged) {
  plan::Recording recording;
  recording.streams = {{"compute0", true}, {"x", false}};
  plan::RecordedStep step{.step = 0, .begin = 0, .end = 0, .times = {}};
  constexpr int kTasks = 50'000;
  for (int i = 0; i < kTasks; ++i) {
    recording.tasks.push_back({.name = "t" + std::to_string(i)});
    recording.tasks.push_back({.name = "r" + std::to_string(i), .stream = 1});
    step.times.push_back({i * 10, i * 10 + 5});
    step.times.push_back({i * 10 + 4, i * 10 + 9});
  }
  step.end = kTasks * 10;
  recording.ranks = {{0, {step}}};
  const std::string svg = picture({{"many", &recording}});
  EXPECT_LT(svg.size(), 1'000'000U);
  EXPECT_TRUE(has_parts(svg, {" tasks, t0 to t", "<title>exposed "}));
}

TEST(TimelinePicture, NoPartsAndNoTimeAreStillPictures) {
  const plan::Recording none = sample({}, 1), instant = sample({0}, 0);
  EXPECT_TRUE(picture({}).ends_with("</svg>\n"));
  EXPECT_TRUE(picture({{"none", &none}}).ends_with("</svg>\n"));
  const std::string svg = picture({{"instant", &instant}});
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
}

struct PathSample {
  plan::Recording recording{.streams = {{"compute0"}, {"data", false}}};
  plan::RecordedStep step;

  std::uint32_t add(std::uint32_t stream, std::int64_t begin, std::int64_t end) {
    recording.tasks.push_back({.stream = stream});
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
