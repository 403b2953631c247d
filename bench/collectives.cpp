// How fast an all-reduce is, over message sizes: Weft's against MPI_Allreduce (blocking) and MPI_Iallreduce.
//
//   bench_collectives [FIRST LAST [RANKS]]      local ranks (threads), 2 if not said; no competitor
//   mpirun -np 2 bench_collectives [FIRST LAST] MPI ranks; messages of FIRST to LAST bytes, each twice the last
//
// Time is the slowest rank's, from a barrier; the competitors' turns are interleaved; medians. Columns: microseconds
// of Weft, of both competitors, and their ratios to Weft (above 1: Weft is faster). `wire` is the rate at which one
// rank sends, 2·(ranks − 1)/ranks of the message an all-reduce.
#define OMPI_SKIP_MPICXX 1
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdlib>

#include "graph/operation.h"
#include "runtime/comm/backoff.h"
#include "runtime/comm/launch.h"
#include "runtime/comm/mpi.h"

namespace weft {
namespace {

enum class Competitor : std::uint8_t { weft, allreduce, iallreduce };
constexpr std::size_t kCompetitors = 3;

void run(Competitor competitor, Communicator& group, std::vector<float>& data, std::vector<float>& workspace) {
  const auto count = static_cast<std::int64_t>(data.size());
  switch (competitor) {
    case Competitor::weft:
      run_blocking(group, {CollectiveKind::all_reduce, DType::f32, count, 0, nullptr, data.data(), workspace.data()});
      return;
    case Competitor::allreduce:
      MPI_Allreduce(MPI_IN_PLACE, data.data(), static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      return;
    case Competitor::iallreduce: {
      MPI_Request request = MPI_REQUEST_NULL;
      MPI_Iallreduce(MPI_IN_PLACE, data.data(), static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
      int complete = 0;
      for (Backoff backoff;; backoff.pause()) {
        MPI_Test(&request, &complete, MPI_STATUS_IGNORE);
        if (complete != 0) return;
      }
    }
  }
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

void measure(World& world, Communicator& group, std::int64_t bytes) {
  const std::int64_t count = bytes / 4, ranks = world.size();
  std::vector<float> data(static_cast<std::size_t>(count), 0.0F);
  std::vector<float> workspace(static_cast<std::size_t>(all_reduce_workspace(count, ranks)) + 1);
  const std::size_t competitors = world.name() == "mpi" ? kCompetitors : 1;
  const int repetitions = bytes <= (1 << 18) ? 61 : bytes <= (1 << 23) ? 21 : 9;
  const int inner = bytes <= (1 << 16) ? 20 : 1;  // small ones back to back, as their barrier costs more than they do
  std::array<std::vector<double>, kCompetitors> times;
  for (int repetition = -2; repetition < repetitions; ++repetition) {
    for (std::size_t c = 0; c < competitors; ++c) {
      world.barrier();
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < inner; ++i) run(static_cast<Competitor>(c), group, data, workspace);
      const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
      double slowest = 0;
      for (const std::uint64_t bits : world.all_gather(std::bit_cast<std::uint64_t>(time.count() / inner))) {
        slowest = std::max(slowest, std::bit_cast<double>(bits));
      }
      if (repetition >= 0) times[c].push_back(slowest);
    }
  }
  if (world.rank() != 0) return;
  const double weft = median(times[0]);
  const double sent = 2.0 * static_cast<double>(ranks - 1) / static_cast<double>(ranks) * static_cast<double>(bytes);
  fmt::print("{:>10} {:>11.1f}", bytes, weft);
  for (std::size_t c = 1; c < competitors; ++c) fmt::print(" {:>11.1f}", median(times[c]));
  for (std::size_t c = 1; c < competitors; ++c) fmt::print(" {:>10.2f}", median(times[c]) / weft);
  fmt::print(" {:>9.2f}\n", sent / weft / 1e3);
}

int sweep(World& world, std::int64_t first, std::int64_t last) {
  const auto group = world.split(0);
  if (world.rank() == 0) {
    const bool mpi = world.name() == "mpi";
    fmt::print("all-reduce of f32, {} {} ranks\n{:>10} {:>11}{} {:>9}\n", world.size(), world.name(), "bytes",
               "weft us", mpi ? "   Allreduce  Iallreduce  /Allreduce /Iallreduce" : "", "wire GB/s");
  }
  for (std::int64_t bytes = first; bytes <= last; bytes *= 2) measure(world, *group, bytes);
  return 0;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  const std::int64_t first = argc > 2 ? std::atoll(argv[1]) : 1 << 10;
  const std::int64_t last = argc > 2 ? std::atoll(argv[2]) : 1 << 26;
  const int ranks = argc > 3 ? std::atoi(argv[3]) : 2;
  if (first < 4 || first % 4 != 0 || ranks < 1 || argc == 2 || argc > 4) {
    fmt::print(stderr, "usage: bench_collectives [FIRST_BYTES LAST_BYTES [LOCAL_RANKS]]\n");
    return 2;
  }
  const auto sweep = [&](weft::World& world) { return weft::sweep(world, first, last); };
  return weft::launched_by_mpi() ? weft::run_mpi(sweep) : weft::run_ranks(ranks, sweep);
}
