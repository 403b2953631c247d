// For which event each wait of a step is, where one wait alone doesn't tell.
#include "inspect/import/waits/wait_search.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "inspect/import/waits/wait_model.h"

namespace weft::inspect {
namespace {

/// Steps by hand: work begins when its stream is free and all that it waits for has ended. Streams from 10 on
/// communicate. What is recorded and awaited is told to the search without saying which is which.
class WaitedStep {
 public:
  WaitedStep() { problem_.chance = 0.01; }
  /// `awaited`: names; "outside": an event of another step.
  WaitedStep& run(const std::string& name, std::uint32_t stream, std::int64_t length,
                  const std::vector<std::string>& awaited = {}, bool recorded = true) {
    const std::uint32_t slot = slots_.emplace(stream, static_cast<std::uint32_t>(slots_.size())).first->second;
    const auto index = static_cast<std::uint32_t>(problem_.work.size());
    std::int64_t& free = free_[slot];
    const std::int64_t alone = free;
    if (!awaited.empty()) {
      problem_.groups.push_back({index, static_cast<std::uint32_t>(awaited.size()),
                                 static_cast<std::uint32_t>(problem_.events.size()), kNoEvent});
    }
    for (const std::string& each : awaited) {
      const auto group = static_cast<std::uint32_t>(problem_.groups.size()) - 1;
      if (each == "outside") {
        truth_.push_back({group, kNoEvent});
        continue;
      }
      truth_.push_back({group, event_of_.at(each)});
      free = std::max(free, problem_.work[problem_.events[event_of_.at(each)]].end);
    }
    WaitWork work{slot, places_[slot]++, free, free + length};
    work.held_up = work.begin > alone;
    work.communicates = stream >= 10;
    const std::string kind = name.substr(0, name.find_last_not_of("0123456789") + 1);
    work.kind = kinds_.emplace(kind, static_cast<std::uint32_t>(kinds_.size())).first->second;
    free = work.end;
    problem_.work.push_back(work);
    problem_.streams = static_cast<std::uint32_t>(slots_.size());
    if (recorded) {
      event_of_[name] = static_cast<std::uint32_t>(problem_.events.size());
      problem_.events.push_back(index);
    }
    return *this;
  }
  const WaitProblem& problem() const { return problem_; }
  const std::vector<FoundWait>& truth() const { return truth_; }

 private:
  WaitProblem problem_;
  std::map<std::uint32_t, std::uint32_t> slots_;  // by stream
  std::map<std::uint32_t, std::uint32_t> places_;
  std::map<std::uint32_t, std::int64_t> free_;
  std::map<std::string, std::uint32_t> event_of_, kinds_;
  std::vector<FoundWait> truth_;
};

using GroupEvents = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

GroupEvents sorted_waits(const std::vector<FoundWait>& waits) {
  GroupEvents pairs;
  for (const FoundWait& wait : waits) pairs.emplace_back(wait.group, wait.event);
  std::ranges::sort(pairs);
  return pairs;
}

std::string name_of(const char* name, int i) {
  return name + std::to_string(i);
}

/// Sums of activations, which hold up the next layer, and sums of gradients, for which the updates wait at the end.
WaitedStep two_kinds_of_sums(int layers) {
  WaitedStep step;
  for (int i = 0; i < layers; ++i) {
    step.run(name_of("forward", i), 0, 1000 + 100 * i,
             i == 0 ? std::vector<std::string>() : std::vector{name_of("sum", i - 1)});
    step.run(name_of("sum", i), 10, 400, {name_of("forward", i)});
  }
  step.run("loss", 0, 200, {name_of("sum", layers - 1)}, false);
  for (int i = 0; i < layers; ++i) {
    step.run(name_of("inputs", i), 0, 700);
    step.run(name_of("summed", i), 10, 300, {name_of("inputs", i)});
    step.run(name_of("weights", i), 0, 800);  // longer than the sum: times don't tell that the next layer waits for it
    step.run(name_of("gradient", i), 11, 100, {name_of("weights", i)});
    step.run(name_of("bias", i), 0, 150, {name_of("summed", i)}, false);
  }
  for (int i = 0; i < layers; ++i) step.run(name_of("update", i), 0, 50, {name_of("gradient", i)}, false);
  return step;
}

TEST(WaitSearch, TellsEventsThatAreAwaitedSoonFromThoseAwaitedLate) {
  const WaitedStep step = two_kinds_of_sums(8);
  EXPECT_EQ(sorted_waits(find_waits(step.problem())), sorted_waits(step.truth()));
}

TEST(WaitSearch, FindsWaitsOfTwoComputingStreams) {
  WaitedStep step;
  for (int i = 0; i < 6; ++i) {
    step.run(name_of("inputs", i), 0, 900 + 10 * i,
             i == 0 ? std::vector<std::string>() : std::vector{name_of("sum", i - 1)});
    step.run(name_of("weights", i), 1, 700 + 30 * i, {name_of("inputs", i)});
    step.run(name_of("sum", i), 10, 500, {name_of("inputs", i)});
    step.run(name_of("scatter", i), 11, 250, {name_of("weights", i)});
  }
  for (int i = 0; i < 6; ++i) step.run(name_of("update", i), 0, 60, {name_of("scatter", i)}, false);
  EXPECT_EQ(sorted_waits(find_waits(step.problem())), sorted_waits(step.truth()));
}

TEST(WaitSearch, KnowsThatAStreamHasSeenWhatItsPartnersHaveSeen) {
  // `use` waits for `sum`, which waited for `second`, so neither `first` nor `second` is news to it.
  WaitedStep step;
  step.run("first", 0, 100).run("second", 0, 100).run("sum", 10, 100, {"second"});
  step.run("other", 11, 100, {"first"}).run("use", 1, 100, {"sum"}, false).run("last", 1, 500, {"other"}, false);
  EXPECT_EQ(sorted_waits(find_waits(step.problem())), sorted_waits(step.truth()));
}

TEST(WaitSearch, LeavesWaitsForOtherStepsWithoutAnEvent) {
  WaitedStep step;
  step.run("gather0", 10, 500, {"outside"}).run("gather1", 10, 500, {"outside"});
  for (int i = 0; i < 2; ++i) step.run(name_of("use", i), 0, 300, {name_of("gather", i)});
  EXPECT_EQ(sorted_waits(find_waits(step.problem())), sorted_waits(step.truth()));
}

TEST(WaitSearch, OfNothingFindsNothing) {
  EXPECT_TRUE(find_waits({}).empty());
  WaitedStep step;
  step.run("a", 0, 100).run("b", 10, 100);
  EXPECT_TRUE(find_waits(step.problem()).empty());
}

TEST(WaitSearch, HasOneResultForEachWait) {
  const WaitedStep step = two_kinds_of_sums(5);
  const WaitProblem problem = step.problem();
  std::size_t waits = 0;
  for (const WaitGroup& group : problem.groups) waits += group.waits;
  const std::vector<FoundWait> found = find_waits(problem);
  EXPECT_EQ(found.size(), waits);
  for (const FoundWait& wait : found) {
    EXPECT_GT(wait.confidence, 0);
    EXPECT_LE(wait.confidence, 1);
    if (wait.event == kNoEvent) continue;
    const WaitWork &from = problem.work[problem.events[wait.event]], &to = problem.work[problem.groups[wait.group].to];
    EXPECT_NE(from.stream, to.stream);
    EXPECT_LE(from.end, to.begin + problem.slack);
  }
}

TEST(WaitModel, PrefersStepsThatRepeatThemselves) {
  const WaitedStep step = two_kinds_of_sums(8);
  const WaitProblem problem = step.problem();
  std::vector<FoundWait> swapped = step.truth();
  // Gradients' events for activations' events, in half of the layers.
  std::map<std::uint32_t, std::uint32_t> other;
  for (std::uint32_t event = 0; event + 3 < problem.events.size(); ++event) {
    const bool pair =
        problem.work[problem.events[event]].stream == 1 && problem.work[problem.events[event + 2]].stream == 2;
    if (pair && other.size() < 8) other[event] = event + 2, other[event + 2] = event;
  }
  ASSERT_EQ(other.size(), 8U);
  for (FoundWait& wait : swapped) {
    const bool computes = !problem.work[problem.groups[wait.group].to].communicates;
    if (computes && other.contains(wait.event)) wait.event = other.at(wait.event);
  }
  EXPECT_GT(WaitModel(problem, true).of_all(step.truth()), WaitModel(problem, true).of_all(swapped));
}

}  // namespace
}  // namespace weft::inspect
