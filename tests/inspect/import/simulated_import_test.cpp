// An imported step takes as long in the simulator as in the import's own replay: both give its edges one meaning.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "inspect/import/trace_import.h"
#include "runtime/simulate/open_problem.h"
#include "runtime/simulate/open_what_if.h"
#include "tests/base/temporary_folder.h"
#include "tests/inspect/import/kineto_text.h"

namespace weft::inspect {
namespace {

using testing::KinetoText;

double simulated(const graph::OpenGraph& graph) {
  const simulate::Problem problem = simulate::open_problem(graph, {});
  const simulate::Report report = simulate::report_plan(problem, policy::named_policy("recorded"));
  EXPECT_EQ(report.refusal, "");
  return report.step_ns();
}

double played(const graph::OpenGraph& graph) {
  return step_length(replay_steps(graph, graph::find_meetings(graph)));
}

/// A step of a rank as it could be recorded: two threads launch on three streams, and the main one waits now and then.
/// Kernels of one stream may overlap, and collectives of one group run on two streams.
KinetoText random_rank(std::int64_t rank, std::uint64_t seed) {
  std::mt19937_64 random(seed + 1000 * static_cast<std::uint64_t>(rank)), common(seed);
  const auto from = [](std::mt19937_64& source, std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(source() % static_cast<std::uint64_t>(most - least + 1));
  };
  KinetoText text;
  text.info = fmt::format(R"("rank": {}, "world_size": 2, "pg_config": [{{"pg_name": "0", "pg_desc": "default_pg",
                          "pg_size": 2}}])",
                          rank);
  std::vector<std::int64_t> free(4, 0), ended(4, 0);
  std::int64_t id = 0, host = 1'000 + rank * 300'000, latest = 0;
  for (std::int64_t i = 0; i < 200; ++i) {
    const std::int64_t thread = i / 25 % 2 == 0 ? 1 : 2;
    const std::int64_t what = from(common, 0, 9), stream = what < 7 ? from(common, 0, 1) : from(common, 2, 3);
    const std::int64_t length = from(random, 2'000, 60'000);
    text.call("cudaLaunchKernel", thread, host, 4'000, id);
    std::int64_t begin = std::max({host + from(random, 6'000, 9'000), free[static_cast<std::size_t>(stream)]});
    if (what >= 7) begin = std::max(begin, ended[0]);
    if (what == 0) begin = std::max(begin, ended[2]);
    text.kernel(what < 7 ? "gemm" : "ncclDevKernel_AllReduce", 7 + stream, begin, length, id,
                what < 7 ? "" : R"(, "Process Group Name": "0", "Collective name": "allreduce")");
    ended[static_cast<std::size_t>(stream)] = begin + length;
    // Some kernels begin before the one before them has ended.
    free[static_cast<std::size_t>(stream)] = begin + length - (what == 3 ? length / 3 : 0);
    latest = std::max(latest, begin + length);
    ++id;
    host += from(random, 5'000, 40'000);
    if (what == 5 && thread == 1 && latest > host) {
      text.call("cudaDeviceSynchronize", thread, host, latest + 3'000 - host, id++);
      host = latest + from(random, 4'000, 30'000);
    }
  }
  text.step(1, 1, 0, std::max(host, latest) + 5'000);
  return text;
}

ImportedTrace imported(std::uint64_t seed, std::int64_t ranks) {
  const testing::TemporaryFolder folder;
  std::vector<std::filesystem::path> files;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    files.emplace_back(folder.write(fmt::format("rank_{}.json", rank), random_rank(rank, seed).text()));
  }
  return import_traces(files, "kineto", {});
}

TEST(SimulatedImport, TakesAsLongAsItsReplay) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    const ImportedTrace step = imported(seed, 1 + static_cast<std::int64_t>(seed % 2));
    const double replayed = played(step.graph);
    EXPECT_NEAR(simulated(step.graph), replayed, 0.001 * replayed);
    EXPECT_NEAR(step.verdict.replayed_ns, replayed, 1);
    for (const graph::OpenClass& one : step.graph.classes) {
      for (const graph::OpenEdge& edge : one.edges) {
        EXPECT_FALSE(edge.after_begin_ns) << one.tasks[edge.from].name << " to " << one.tasks[edge.to].name;
      }
    }
  }
}

TEST(SimulatedImport, TakesAsLongAsItsReplayWithoutTheHost) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(seed);
    ImportedTrace step = imported(seed, 2);
    simulate::take_host_away(step.graph);
    EXPECT_NEAR(simulated(step.graph), step.verdict.without_host_ns, 0.001 * step.verdict.without_host_ns);
  }
}

TEST(SimulatedImport, IsAsLongAsItsRecord) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(seed);
    const ImportedTrace step = imported(seed, 1);
    EXPECT_NEAR(step.ranks[0].replayed_ns, step.ranks[0].recorded_ns, 0.02 * step.ranks[0].recorded_ns);
  }
}

}  // namespace
}  // namespace weft::inspect
