#include "runtime/policy/scheduling/memory_forecast.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/plan/plan_memory.h"
#include "tests/runtime/random_graph.h"

namespace weft::policy {
namespace {

/// The same by its definition: a tensor is alive at a place if an access of it isn't done, it has been started by then,
/// and its last access in the program isn't before.
class ByDefinition {
 public:
  explicit ByDefinition(const graph::Graph& graph)
      : graph_(graph), done_(graph.tasks().size()), begun_(graph.tasks().size()) {}
  void start(std::size_t task) { begun_[task] = true; }
  void finish(std::size_t task) { done_[task] = true; }
  std::int64_t bytes_at(std::size_t place) const {
    std::int64_t sum = 0;
    for (std::size_t t = 0; t < graph_.tensors().size(); ++t) {
      std::size_t first = done_.size(), last = 0;
      bool begun = false, needed = false;
      for (std::size_t i = 0; i < done_.size(); ++i) {
        if (!accesses(i, t)) continue;
        first = std::min(first, i);
        last = i;
        begun = begun || begun_[i];
        needed = needed || !done_[i];
      }
      if (needed && (begun || first <= place) && last >= place) sum += bytes(t);
    }
    return sum;
  }
  std::int64_t peak_with(std::size_t task) {
    begun_[task] = true;
    std::int64_t peak = bytes_at(task);
    for (std::size_t i = front(); i < task; ++i) peak = std::max(peak, bytes_at(i));
    begun_[task] = false;
    return peak;
  }
  std::size_t front() const { return static_cast<std::size_t>(std::ranges::find(done_, false) - done_.begin()); }

 private:
  bool accesses(std::size_t task, std::size_t tensor) const {
    return !graph::is_state(graph_.tensors()[tensor].role) &&
           std::ranges::any_of(graph_.tasks()[task].accesses,
                               [&](const graph::Access& access) { return access.view.tensor.index() == tensor; });
  }
  std::int64_t bytes(std::size_t tensor) const {
    return (graph_.tensors()[tensor].bytes() + plan::kTensorAlignment - 1) / plan::kTensorAlignment *
           plan::kTensorAlignment;
  }
  const graph::Graph& graph_;
  std::vector<bool> done_, begun_;
};

TEST(MemoryForecast, EqualsItsDefinitionWhateverTheOrder) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const auto graph = testing::random_graph(seed, {.tasks = 25 + seed, .channels = 2});
    MemoryForecast forecast(*graph);
    for (int round = 0; round < 2; ++round) {  // the second after a reset
      ByDefinition definition(*graph);
      for (const plan::Placement& placement : testing::RandomPolicy(seed).order(*graph, {}).sequence) {
        const std::size_t task = placement.task.index();
        EXPECT_EQ(forecast.front(), definition.front());
        EXPECT_EQ(forecast.peak_with(task), definition.peak_with(task)) << "seed " << seed << " task " << task;
        for (const std::int64_t bytes : {std::int64_t{-1}, forecast.live() - 1, forecast.live(), 2 * forecast.live()}) {
          std::size_t place = definition.front();
          while (place < graph->tasks().size() && definition.bytes_at(place) <= bytes) ++place;
          EXPECT_EQ(forecast.first_above(bytes), place) << "seed " << seed << " task " << task;
        }
        const std::int64_t live = forecast.live(), adds = forecast.adds(task), frees = forecast.frees(task);
        forecast.start(task);
        definition.start(task);
        EXPECT_EQ(forecast.live(), live + adds);
        EXPECT_EQ(forecast.finish(task), frees);
        definition.finish(task);
        EXPECT_EQ(forecast.live(), live + adds - frees);
      }
      EXPECT_EQ(forecast.live(), 0);
      forecast.reset();
    }
  }
}

}  // namespace
}  // namespace weft::policy
