// The speed of Weft's collectives over message sizes, compared with the faster of MPI's blocking and non-blocking
// collectives.
//
//   tools/netlab 1gbit 2 build/bench/bench_collectives --rate 1      two hosts; shares of the wire's speed
//   mpirun -np 2 build/bench/bench_collectives                       shared memory
//   build/bench/bench_collectives --ranks 4                          local ranks (threads); no competitor
//   … --kind all_reduce --first 4 --last 1048576                     fewer lines
//
// Bytes count the full vector; each line has four times the bytes of the previous line. A time is the slowest rank's,
// from a barrier; the table shows medians. The competitors take turns in varying order, because data of the last
// message that a link still holds costs the next competitor time. Messages up to 1 MB are sent back to back, for two
// reasons: the barrier takes longer than a small message, and while nothing is sent, a limited link saves up a burst
// (256 KB with tools/netlab), which isn't speed.
#define OMPI_SKIP_MPICXX 1
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/median.h"
#include "bench/program.h"
#include "runtime/comm/backoff.h"
#include "runtime/comm/launch.h"
#include "runtime/comm/mpi.h"

namespace weft {
namespace {

constexpr std::array kKinds = {comm::CollectiveKind::all_reduce, comm::CollectiveKind::reduce_scatter,
                               comm::CollectiveKind::all_gather};

struct Options {
  std::int64_t first = 4, last = std::int64_t{64} << 20;
  double gbit = 0;     // of the wire in one direction; 0: unknown
  int ranks = 2;       // local ranks
  double seconds = 3;  // spent on a line, approximately
  std::vector<std::string> kinds = {"all_reduce", "reduce_scatter", "all_gather"};
};

enum class Competitor : std::uint8_t { weft, blocking, nonblocking };
constexpr std::size_t kCompetitors = 3;

/// The buffers of one collective of `full` elements: reduce_scatter reads `data` and writes `part`; all_gather the
/// reverse.
struct Buffers {
  comm::CollectiveKind kind;
  std::int64_t full, part_count;
  std::vector<float> data, part, workspace;

  Buffers(comm::CollectiveKind kind, std::int64_t count, std::int64_t ranks)
      : kind(kind), full(count), part_count(count / ranks) {
    data.assign(static_cast<std::size_t>(full), 0.0F);
    part.assign(static_cast<std::size_t>(part_count), 0.0F);
    workspace.assign(static_cast<std::size_t>(full + ranks), 0.0F);
  }
};

void run_weft(comm::Communicator& group, Buffers& b) {
  switch (b.kind) {
    case comm::CollectiveKind::all_reduce:
      return comm::run_blocking(group, {b.kind, DType::f32, b.full, 0, nullptr, b.data.data(), b.workspace.data()});
    case comm::CollectiveKind::reduce_scatter:
      return comm::run_blocking(
          group, {b.kind, DType::f32, b.part_count, 0, b.data.data(), b.part.data(), b.workspace.data()});
    default:
      return comm::run_blocking(group, {b.kind, DType::f32, b.part_count, 0, b.part.data(), b.data.data(), nullptr});
  }
}

/// A request that is complete if the call is blocking.
MPI_Request start_mpi(Buffers& b, bool blocking) {
  const auto full = static_cast<int>(b.full), part = static_cast<int>(b.part_count);
  float *const data = b.data.data(), *const own = b.part.data();
  MPI_Request request = MPI_REQUEST_NULL;
  switch (b.kind) {
    case comm::CollectiveKind::all_reduce:
      blocking ? MPI_Allreduce(MPI_IN_PLACE, data, full, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD)
               : MPI_Iallreduce(MPI_IN_PLACE, data, full, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
      break;
    case comm::CollectiveKind::reduce_scatter:
      blocking ? MPI_Reduce_scatter_block(data, own, part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD)
               : MPI_Ireduce_scatter_block(data, own, part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
      break;
    default:
      blocking ? MPI_Allgather(own, part, MPI_FLOAT, data, part, MPI_FLOAT, MPI_COMM_WORLD)
               : MPI_Iallgather(own, part, MPI_FLOAT, data, part, MPI_FLOAT, MPI_COMM_WORLD, &request);
  }
  return request;
}

void run(Competitor competitor, comm::Communicator& group, Buffers& buffers) {
  if (competitor == Competitor::weft) return run_weft(group, buffers);
  MPI_Request request = start_mpi(buffers, competitor == Competitor::blocking);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

void measure(comm::World& world, comm::Communicator& group, const Options& options, comm::CollectiveKind kind,
             std::int64_t bytes) {
  const std::int64_t ranks = world.size();
  // Whole slices, if each rank has a slice of its own.
  const std::int64_t count =
      kind == comm::CollectiveKind::all_reduce ? bytes / 4 : std::max<std::int64_t>(1, bytes / 4 / ranks) * ranks;
  Buffers buffers(kind, count, ranks);
  const std::size_t competitors = world.name() == "mpi" ? kCompetitors : 1;
  const auto inner = static_cast<int>(std::clamp<std::int64_t>((2 << 20) / bytes, 1, 20));
  std::array<std::vector<double>, kCompetitors> times;
  double round = 0;  // seconds of one turn of all competitors, equal on all ranks
  int repetitions = 1;
  for (int repetition = -2; repetition < repetitions; ++repetition) {
    double sum = 0;
    for (std::size_t turn = 0; turn < competitors; ++turn) {
      // All six orders, so that each competitor follows each other one equally often.
      std::array<std::size_t, 3> order = {0, 1, 2};
      for (int i = (repetition + 2) % 6; i > 0; --i) std::ranges::next_permutation(order);
      const std::size_t c = competitors == 1 ? 0 : order[turn];
      world.barrier();
      const bench::Stopwatch watch;
      for (int i = 0; i < inner; ++i) run(static_cast<Competitor>(c), group, buffers);
      const double seconds = std::ranges::max(comm::of_ranks(world, watch.seconds()));
      sum += seconds;
      if (repetition >= 0) times[c].push_back(seconds / inner);
    }
    round = sum;
    if (repetition == -1) repetitions = 6 * std::clamp(static_cast<int>(options.seconds / round / 6), 1, 20);
  }
  if (world.rank() != 0) return;
  const double weft = median(times[0]);
  const double exchanges = kind == comm::CollectiveKind::all_reduce ? 2.0 : 1.0;
  const double sent = exchanges * static_cast<double>((ranks - 1) * count * 4) / static_cast<double>(ranks);
  fmt::print("| {} | {:.4f} |", count * 4, weft * 1e3);
  if (competitors > 1) {
    const double blocking = median(times[1]), nonblocking = median(times[2]);
    fmt::print(" {:.4f} | {:.4f} | {:.2f} |", blocking * 1e3, nonblocking * 1e3,
               std::min(blocking, nonblocking) / weft);
  }
  if (options.gbit > 0) {
    fmt::print(" {:.1f} |\n", 100 * sent * 8 / (options.gbit * 1e9) / weft);
  } else {
    fmt::print(" {:.3f} GB/s |\n", sent / weft / 1e9);
  }
  std::fflush(stdout);
}

int sweep(comm::World& world, const Options& options) {
  const auto group = world.split(0);
  const bool mpi = world.name() == "mpi";
  for (const comm::CollectiveKind kind : kKinds) {
    if (std::ranges::find(options.kinds, comm::to_string(kind)) == options.kinds.end()) continue;
    if (world.rank() == 0) {
      fmt::print("\n{} of f32, {} {} ranks; ms\n\n| bytes | weft |{}{} |\n|---|---|---|{}\n", comm::to_string(kind),
                 world.size(), world.name(), mpi ? " MPI, blocking | MPI, non-blocking | faster MPI / weft |" : "",
                 options.gbit > 0 ? " % of the wire" : " sent", mpi ? "---|---|---|" : "");
    }
    for (std::int64_t bytes = options.first; bytes <= options.last; bytes *= 4) {
      measure(world, *group, options, kind, bytes);
    }
  }
  return 0;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  weft::Options options;
  CLI::App app("the speed of collectives over message sizes", "bench_collectives");
  app.add_option("--kind", options.kinds, "which collectives")->check(CLI::IsMember(options.kinds));
  app.add_option("--first", options.first, "bytes of the first line")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--last", options.last, "bytes at most")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--rate", options.gbit, "Gbit/s of the wire in one direction")->check(CLI::PositiveNumber);
  app.add_option("--seconds", options.seconds, "for a line")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--ranks", options.ranks, "threads, without MPI")->check(CLI::PositiveNumber)->capture_default_str();
  const auto sweep = [&](weft::comm::World& world) { return weft::sweep(world, options); };
  return weft::bench::main_of(app, argc, argv, [&] {
    return weft::comm::launched_by_mpi() ? weft::comm::run_mpi(sweep) : weft::comm::run_ranks(options.ranks, sweep);
  });
}
