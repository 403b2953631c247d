// What searches of pipeline schedules gain over the best published schedule with the same memory, in twelve settings.
//
// Ranks of equal or unequal speed, chunks of one forward pass, one gradient of inputs and one of weights a micro-batch,
// and links that are fast or slow. Every schedule is simulated. A search gets as memory what the best published
// schedule takes on the rank that takes most.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "bench/program.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/simulate/report.h"
#include "tests/runtime/pipeline_toy.h"

namespace {

using namespace weft;

struct Setting {
  std::int64_t stages, micro_batches;
  double message;  // of a forward pass of a rank
  bool unequal;
};

constexpr double kFast = 0.02, kSlow = 0.4;
constexpr Setting kSettings[] = {
    {4, 4, kFast, false},   {4, 8, kSlow, false},   {4, 8, kFast, true},   {4, 16, kSlow, true},
    {8, 8, kFast, false},   {8, 16, kSlow, false},  {8, 16, kFast, true},  {8, 32, kSlow, true},
    {16, 16, kFast, false}, {16, 32, kSlow, false}, {16, 32, kFast, true}, {16, 64, kSlow, true},
};

struct Division {
  const char* parameters;
  graph::PipelineChunks chunks;
  std::vector<const char*> published;
};

const std::vector<Division>& divisions() {
  static const std::vector<Division> all = {
      {"chunks=1", {}, {"gpipe", "1f1b", "zb-h1"}},
      {"chunks=2", {2, graph::ChunkPlacement::loop}, {"interleaved"}},
      {"chunks=2,placement=v", {2, graph::ChunkPlacement::v}, {"zb-v", "dualpipe-v"}},
  };
  return all;
}

testing::PipelineToy toy_of(const Setting& setting, const graph::PipelineChunks& chunks) {
  constexpr double kForward = 1000, kInput = 1100, kWeight = 900;  // of a rank, in nanoseconds
  constexpr std::int64_t kSaved = 4096;                            // elements that a rank keeps of a micro-batch
  const auto parts = static_cast<double>(chunks.chunks);
  testing::PipelineShape shape{.stages = setting.stages, .micro_batches = setting.micro_batches, .chunks = chunks};
  shape.forward = kForward / parts;
  shape.input = kInput / parts;
  shape.weight = kWeight / parts;
  shape.message = setting.message * kForward;
  shape.update = 100;
  shape.saved = kSaved / chunks.chunks;
  for (std::int64_t rank = 0; setting.unequal && rank < setting.stages; ++rank)
    shape.factors.push_back(rank + 1 == setting.stages ? 1.25 : rank % 3 == 1 ? 0.9 : 1.0);
  return testing::PipelineToy(shape);
}

struct Result {
  std::string name;
  double step = std::numeric_limits<double>::infinity(), bound = 0;
  std::int64_t scratch = 0;
  double seconds = 0;
};

std::optional<Result> result_of(const Setting& setting, const Division& division, const std::string& policy,
                                std::int64_t limit) {
  const testing::PipelineToy toy = toy_of(setting, division.chunks);
  simulate::Problem problem;
  problem.classes = toy.classes();
  problem.grid = toy.grid();
  problem.options.cost_model = toy.prices();
  problem.options.memory_limit = limit;
  for (std::size_t i = 0; i < graph::kAxisChannels; ++i)
    problem.simulation.link_of_channel.push_back(static_cast<int>(i));
  problem.options.link_of_channel = problem.simulation.link_of_channel;
  const bench::Stopwatch watch;
  const simulate::Report report = simulate::report_plan(problem, policy::named_policy(policy));
  if (!report.planned()) {
    fmt::print(stderr, "{}: {}\n", policy, report.refusal.substr(0, report.refusal.find('\n')));
    return std::nullopt;
  }
  Result result{policy, report.step_ns(), report.bounds.best()};
  for (const plan::Plan* plan : report.plans()) result.scratch = std::max(result.scratch, plan->scratch_bytes);
  result.seconds = watch.seconds();
  return result;
}

void take(std::optional<Result>& best, std::optional<Result> found) {
  if (found && (!best || found->step < best->step)) best = std::move(found);
}

void run(const Setting& setting, std::int64_t moves) {
  std::optional<Result> published, searched;
  double bound = std::numeric_limits<double>::infinity(), seconds = 0;
  for (const Division& division : divisions()) {
    for (const char* policy : division.published) {
      std::optional<Result> found = result_of(setting, division, policy, 0);
      if (found) bound = std::min(bound, found->bound);
      take(published, std::move(found));
    }
  }
  for (const Division& division : divisions()) {
    std::optional<Result> found = result_of(
        setting, division, fmt::format("portfolio:{},budget={}", division.parameters, moves), published->scratch);
    if (found) seconds += found->seconds;
    take(searched, std::move(found));
  }
  const double gap = published->step / bound - 1;
  const double gain = searched ? published->step / searched->step - 1 : 0;
  fmt::print("| {} | {} | {} | {} | {} | {:.1f} % | {} | {:.1f} % | {:.2f} % | {:.0f} s |\n", setting.stages,
             setting.micro_batches, setting.message == kSlow ? "slow" : "fast", setting.unequal ? "no" : "yes",
             published->name, 100 * gap, searched ? searched->name : "none fits",
             100 * (searched ? searched->step / bound - 1 : 0), 100 * gain, seconds);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  std::int64_t moves = 600;
  std::size_t first = 1, last = std::size(kSettings);
  CLI::App app("what searches of pipeline schedules gain", "bench_pipelines");
  app.add_option("MOVES", moves, "of each search")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("FIRST", first, "setting")->check(CLI::Range(std::size_t{1}, last))->capture_default_str();
  app.add_option("LAST", last, "setting")->check(CLI::Range(std::size_t{1}, last))->capture_default_str();
  return bench::main_of(app, argc, argv, [&] {
    fmt::print(
        "| p | micro-batches | links | equal | best published | above its bound | search | above | gain | time |\n"
        "|---|---|---|---|---|---|---|---|---|---|\n");
    for (std::size_t i = first; i <= last; ++i) run(kSettings[i - 1], moves);
    return 0;
  });
}
