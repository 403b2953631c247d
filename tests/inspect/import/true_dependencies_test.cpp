// Three recorded steps of PyTorch: every dependency that a TorchDispatchMode saw follows from the imported edges, and
// no order that they allow breaks one. tests/reference/make_pytorch_steps records them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files/input_file.h"
#include "graph/stream_order.h"
#include "inspect/import/trace_import.h"

namespace weft::inspect {
namespace {

using nlohmann::json;
using Pair = std::pair<std::uint32_t, std::uint32_t>;

constexpr std::int64_t kStepBegin = 1'000'000;  // of the files' clock
constexpr int kOrders = 1000;

std::string file_of(const std::string& kind, const char* part) {
  return fmt::format("{}/tests/reference/golden/pytorch_steps/{}.{}.json.gz", WEFT_SOURCE_DIR, kind, part);
}

json read_json(const std::string& file) {
  OpenedFile opened = open_text_file(file, "the truth");
  std::string text, part(1 << 16, '\0');
  for (std::size_t count = 0; (count = opened.source({part.data(), part.size()})) > 0;) text.append(part, 0, count);
  return json::parse(text);
}

/// "rest of gemm#3, 1" and "way from gemm#3, 2" → "gemm#3": parts of tasks that an import cuts (cut_at_delays()).
std::string uncut_name(const std::string& name) {
  for (const std::string_view before : {"rest of ", "way from "}) {
    if (name.starts_with(before)) return name.substr(before.size(), name.rfind(',') - before.size());
  }
  return name;
}

/// The tasks of operators and collectives, each in one piece. What the interpreter does between two operators is left
/// out: it puts all operators of a thread in one order.
graph::OpenClass without_host(const graph::OpenClass& step) {
  graph::OpenClass out = step;
  out.tasks.clear();
  out.edges.clear();
  std::map<std::string, std::uint32_t> numbers;
  std::vector<std::uint32_t> number(step.tasks.size(), UINT32_MAX), last;
  for (std::uint32_t i = 0; i < step.tasks.size(); ++i) {
    const graph::OpenTask& task = step.tasks[i];
    const std::string name = uncut_name(task.name);
    const auto known = numbers.find(name);
    if (known != numbers.end()) number[i] = known->second;
    if (task.kind == graph::OpenKind::host) continue;
    if (known == numbers.end()) {
      number[i] = static_cast<std::uint32_t>(out.tasks.size());
      numbers.emplace(name, number[i]);
      out.tasks.push_back(task);
      last.push_back(i);
    } else {
      out.tasks[number[i]].end_ns = task.end_ns;
      last[number[i]] = i;
    }
  }
  for (graph::OpenEdge edge : step.edges) {
    const bool order_of_ways =
        edge.source == graph::EdgeSource::stream && step.tasks[edge.from].kind == graph::OpenKind::host;
    const std::uint32_t from = edge.from;
    edge.from = number[edge.from];
    edge.to = number[edge.to];
    if (edge.from == UINT32_MAX || edge.to == UINT32_MAX || edge.from == edge.to || order_of_ways) continue;
    if (from != last[edge.from]) edge.kind = graph::EdgeKind::issued_before;
    out.edges.push_back(edge);
  }
  return out;
}

bool is_by_begin(const graph::OpenEdge& edge) {
  return edge.after_begin_ns.has_value() || edge.kind == graph::EdgeKind::issued_before;
}

/// By task: those that are done before it begins, if these edges hold.
std::vector<std::vector<bool>> done_before(std::size_t tasks, std::vector<graph::OpenEdge> edges) {
  std::ranges::sort(edges, {}, &graph::OpenEdge::to);
  std::vector<std::vector<bool>> done(tasks, std::vector<bool>(tasks, false));
  for (const graph::OpenEdge& edge : edges) {
    std::vector<bool>& of = done[edge.to];
    for (std::size_t i = 0; i < edge.from; ++i) of[i] = of[i] || done[edge.from][i];
    if (!is_by_begin(edge)) of[edge.from] = true;
  }
  return done;
}

class RecordedTruth {
 public:
  explicit RecordedTruth(const std::string& kind, bool with_execution_trace = true) {
    StepChoice choice;
    if (with_execution_trace) choice.execution_traces = {file_of(kind, "execution")};
    const ImportedTrace imported = import_traces({file_of(kind, "trace")}, "kineto", choice);
    step_ = without_host(imported.graph.classes.at(0));
    for (const graph::HeldEdge& held : graph::held_edges(step_, graph::KeptOrder::known)) edges_.push_back(held.edge);
    find_dependencies(read_json(file_of(kind, "truth")));
  }

  const graph::OpenClass& step() const { return step_; }
  const std::vector<graph::OpenEdge>& edges() const { return edges_; }
  const std::set<Pair>& dependencies() const { return dependencies_; }
  std::size_t within_tasks() const { return within_tasks_; }
  std::string name(const Pair& pair) const {
    return step_.tasks[pair.first].name + " before " + step_.tasks[pair.second].name;
  }

  std::size_t broken_by(const std::vector<graph::OpenEdge>& edges) const {
    const auto done = done_before(step_.tasks.size(), edges);
    return static_cast<std::size_t>(
        std::ranges::count_if(dependencies_, [&](const Pair& pair) { return !done[pair.second][pair.first]; }));
  }

 private:
  struct Place {
    std::uint32_t task = UINT32_MAX;        // that the operator is in
    std::vector<std::uint32_t> works = {};  // which access its storages
  };

  Place place_of(const json& operation) const {
    const std::string thread = fmt::format("thread {}", operation.at("thread").get<std::int64_t>());
    const double begin = static_cast<double>(operation.at("begin").get<std::int64_t>() - kStepBegin),
                 end = static_cast<double>(operation.at("end").get<std::int64_t>() - kStepBegin);
    Place place;
    for (std::uint32_t i = 0; i < step_.tasks.size(); ++i) {
      const graph::OpenTask& task = step_.tasks[i];
      if (!step_.streams[static_cast<std::size_t>(task.stream)].name.ends_with(thread)) continue;
      if (*task.begin_ns <= begin + 2 && *task.end_ns + 2 >= end) place.task = i;
    }
    EXPECT_NE(place.task, UINT32_MAX) << operation;
    // A collective's storages are those of the work that it began on another thread.
    const bool collective = operation.at("name").get<std::string>().starts_with("c10d.");
    for (const graph::OpenEdge& edge : step_.edges) {
      const bool began = edge.from == place.task && edge.source == graph::EdgeSource::launch;
      if (collective && began && communicates(step_.tasks[edge.to].kind)) place.works.push_back(edge.to);
    }
    if (place.works.empty()) place.works.push_back(place.task);
    return place;
  }

  void depend(const Place& from, const Place& to) {
    if (from.task == to.task) {
      ++within_tasks_;
      return;
    }
    for (const std::uint32_t a : from.works) {
      for (const std::uint32_t b : to.works) dependencies_.emplace(a, b);
    }
  }

  void find_dependencies(const json& truth) {
    struct State {
      std::vector<Place> writers = {}, readers = {};
    };
    std::map<std::int64_t, State> storages;
    for (const json& operation : truth) {
      if (operation.at("reads").empty() && operation.at("writes").empty()) continue;
      const Place place = place_of(operation);
      for (const std::int64_t storage : operation.at("reads")) {
        for (const Place& writer : storages[storage].writers) depend(writer, place);
        storages[storage].readers.push_back(place);
      }
      for (const std::int64_t storage : operation.at("writes")) {
        State& state = storages[storage];
        for (const Place& writer : state.writers) depend(writer, place);
        for (const Place& reader : state.readers) depend(reader, place);
        state = {{place}, {}};
      }
    }
  }

  graph::OpenClass step_;
  std::vector<graph::OpenEdge> edges_;
  std::set<Pair> dependencies_;
  std::size_t within_tasks_ = 0;
};

class TrueDependencies : public ::testing::TestWithParam<const char*> {};

TEST_P(TrueDependencies, FollowFromTheImportedEdges) {
  const RecordedTruth recorded(GetParam());
  const std::size_t tasks = recorded.step().tasks.size();
  const auto done = done_before(tasks, recorded.edges());
  for (const Pair& pair : recorded.dependencies()) {
    EXPECT_TRUE(done[pair.second][pair.first]) << recorded.name(pair);
  }
  EXPECT_GT(recorded.dependencies().size(), 50U);
  std::size_t ordered = 0;
  for (const std::vector<bool>& before : done) ordered += static_cast<std::size_t>(std::ranges::count(before, true));
  EXPECT_LT(ordered, tasks * (tasks - 1) / 2 * 19 / 20) << "some pairs are free";
  std::size_t known = 0;
  for (const graph::OpenTask& task : recorded.step().tasks) known += task.data_known ? 1 : 0;
  RecordProperty("tasks", static_cast<int>(tasks));
  RecordProperty("known", static_cast<int>(known));
  RecordProperty("dependencies", static_cast<int>(recorded.dependencies().size()));
  RecordProperty("within_tasks", static_cast<int>(recorded.within_tasks()));
  RecordProperty("ordered_pairs", static_cast<int>(ordered));
}

/// Without an execution trace: an operator's node in the backward pass needs what the operator did. Views and nodes
/// that hand gradients on access no data, and a node of FSDP's sums up whatever gradients there are.
TEST_P(TrueDependencies, HaveTheArrowsToTheBackwardPass) {
  const RecordedTruth recorded(GetParam(), false);
  std::vector<graph::OpenEdge> dependencies;
  std::set<std::uint32_t> with_data;
  for (const auto& [from, to] : recorded.dependencies()) {
    dependencies.push_back({from, to});
    with_data.insert({from, to});
  }
  const auto needed = done_before(recorded.step().tasks.size(), dependencies);
  int arrows = 0, implied = 0;
  for (const graph::OpenEdge& edge : recorded.step().edges) {
    if (edge.source != graph::EdgeSource::data) continue;
    ++arrows;
    implied += needed[edge.to][edge.from] ? 1 : 0;
    const bool both_have_data = with_data.contains(edge.from) && with_data.contains(edge.to);
    const bool of_fsdp = recorded.step().tasks[edge.from].operation == "RegisterPostBackwardFunction";
    EXPECT_TRUE(!both_have_data || of_fsdp || needed[edge.to][edge.from]) << recorded.name({edge.from, edge.to});
  }
  EXPECT_GE(implied, 4);
  RecordProperty("arrows", arrows);
  RecordProperty("implied", implied);
}

TEST_P(TrueDependencies, HoldInRandomOrders) {
  const RecordedTruth recorded(GetParam());
  const std::size_t tasks = recorded.step().tasks.size();
  std::vector<std::vector<std::uint32_t>> out(tasks);
  std::vector<int> waits(tasks, 0);
  for (const graph::OpenEdge& edge : recorded.edges()) {
    out[edge.from].push_back(edge.to);
    ++waits[edge.to];
  }
  std::mt19937_64 random(1);
  std::set<std::vector<std::uint32_t>> different;
  for (int trial = 0; trial < kOrders; ++trial) {
    std::vector<int> left = waits;
    std::vector<std::uint32_t> ready, order, place(tasks);
    for (std::uint32_t i = 0; i < tasks; ++i) {
      if (left[i] == 0) ready.push_back(i);
    }
    while (!ready.empty()) {
      std::swap(ready[random() % ready.size()], ready.back());
      const std::uint32_t task = ready.back();
      ready.pop_back();
      place[task] = static_cast<std::uint32_t>(order.size());
      order.push_back(task);
      for (const std::uint32_t to : out[task]) {
        if (--left[to] == 0) ready.push_back(to);
      }
    }
    ASSERT_EQ(order.size(), tasks);
    for (const Pair& pair : recorded.dependencies()) {
      ASSERT_LT(place[pair.first], place[pair.second]) << recorded.name(pair) << " in order " << trial;
    }
    different.insert(order);
  }
  EXPECT_EQ(different.size(), static_cast<std::size_t>(kOrders));
}

TEST_P(TrueDependencies, BreakWithoutAnEdge) {
  const RecordedTruth recorded(GetParam());
  const std::size_t tasks = recorded.step().tasks.size();
  std::size_t needed = 0, noticed = 0;
  for (std::size_t i = 0; i < recorded.edges().size(); ++i) {
    const graph::OpenEdge deleted = recorded.edges()[i];
    if (deleted.source != graph::EdgeSource::data) continue;
    std::vector<graph::OpenEdge> left = recorded.edges();
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(i));
    if (done_before(tasks, left)[deleted.to][deleted.from]) continue;  // others imply it
    ++needed;
    noticed += recorded.broken_by(left) > 0 ? 1 : 0;
  }
  RecordProperty("needed", static_cast<int>(needed));
  RecordProperty("noticed", static_cast<int>(noticed));
  EXPECT_GT(needed, 10U);
  EXPECT_GE(10 * noticed, 6 * needed) << "most edges of data are true dependencies";
}

INSTANTIATE_TEST_SUITE_P(Recorded, TrueDependencies, ::testing::Values("mlp", "ddp", "fsdp"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace weft::inspect
