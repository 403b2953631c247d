// A program for mpirun: the collectives over MPI give the same bits as local ranks, and failures end every process.
//
//   mpirun -np 3 mpi_collectives_check              checks all collectives, prints the hash of their results
//   mpirun -np 3 mpi_collectives_check user-error   every rank throws the same UserError: exit code 2, one report
//   mpirun -np 3 mpi_collectives_check one-error    one rank throws UserError: exit code 2
//   mpirun -np 3 mpi_collectives_check fault        one rank throws while the others wait: exit code 3
//   mpirun -np 3 mpi_collectives_check mismatch     ranks disagree on a count: exit code 3
//   mpirun -np 3 mpi_collectives_check stuck        one rank never joins; the watchdogs end the run: exit code 3
#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>

#include "base/error.h"
#include "runtime/comm/launch.h"
#include "runtime/comm/local.h"
#include "runtime/comm/mpi.h"
#include "runtime/comm/mpi_communicator.h"
#include "runtime/execute/watchdog.h"
#include "tests/runtime/comm/collectives_check.h"
#include "tests/runtime/forwarding_world.h"

namespace {
std::atomic<std::int64_t> allocations{0};
}

// GCC sees malloc's memory behind an inlined new and believes that its delete must not free it.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#endif

void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace weft::testing {
namespace {

// The steady state allocates nothing in our code, for small and for large messages.
std::int64_t allocations_of_collectives(comm::World& world) {
  const auto group = world.split(0);
  const std::int64_t ranks = world.size();
  std::int64_t count = 0;
  for (const std::int64_t length : {100, 3000000}) {
    std::vector<float> in(static_cast<std::size_t>(ranks * length)), out(in.size()), workspace(in.size());
    world.barrier();
    const std::int64_t before = allocations;
    for (const comm::CollectiveKind kind : test::kAllKinds) {
      comm::run_blocking(*group, {kind, DType::f32, length, 0, in.data(), out.data(), workspace.data()});
    }
    count += allocations - before;
  }
  return count;
}

// The ranks of `world`, as if each were on a node of its own: here they share one, so that their messages would only be
// cut as in shared memory.
class RanksApart final : public testing::ForwardingWorld {
 public:
  using ForwardingWorld::ForwardingWorld;

  std::string name() const override { return "mpi, apart"; }
  int ranks_on_node() const override { return 1; }
  int rank_on_node() const override { return 0; }
  std::unique_ptr<comm::Communicator> split(int color) override {
    MPI_Comm comm = MPI_COMM_NULL;
    comm::check_mpi(MPI_Comm_split(MPI_COMM_WORLD, color + 1, rank(), &comm), "split");  // colours from −1 on
    comm::CommHandle group(nullptr, comm);
    const comm::MessageSizes sizes = comm::message_sizes(group.size(), false);
    return comm::make_mpi_communicator(std::move(group), sizes);
  }
};

int check(comm::World& world) {
  const auto report = [&](const std::string& failure) {
    fmt::print(stderr, "{} rank {}: {}\n", world.name(), world.rank(), failure);
    return 1;
  };
  int code = 0;
  const std::string world_failure = test::check_world(world);
  if (!world_failure.empty()) code = report(world_failure);
  const test::CheckResult result = test::check_collectives(world);
  for (const std::string& failure : result.failures) code = report(failure);
  RanksApart apart(world);
  const test::CheckResult apart_result = test::check_collectives(apart);
  for (const std::string& failure : apart_result.failures) code = report("apart: " + failure);
  if (apart_result.hash != result.hash) code = report("the bits of ranks apart are others");
  for (comm::World* each : {&world, static_cast<comm::World*>(&apart)}) {
    if (const std::int64_t count = allocations_of_collectives(*each); count != 0) {
      code = report(fmt::format("{}: {} allocations in collectives", each->name(), count));
    }
  }
  if (world.rank() == 0) {
    std::uint64_t local_hash = 0;
    const int local_code = comm::run_ranks(world.size(), [&](comm::World& local) {
      const test::CheckResult local_result = test::check_collectives(local);
      if (local.rank() == 0) local_hash = local_result.hash;
      return local_result.failures.empty() ? 0 : 1;
    });
    fmt::print("{} ranks: mpi {:016x} local {:016x}\n", world.size(), result.hash, local_hash);
    if (local_code != 0 || local_hash != result.hash) code = report("the bits of local ranks are others");
  }
  for (const std::uint64_t rank_code : world.all_gather(static_cast<std::uint64_t>(code))) {
    if (rank_code != 0) code = 1;
  }
  return code;
}

int mismatch(comm::World& world) {
  const auto group = world.split(0);
  const std::int64_t count = world.rank() == 0 ? 5 : 6;
  std::vector<float> in(6), out(static_cast<std::size_t>(6 * world.size()));
  comm::run_blocking(*group, {comm::CollectiveKind::all_gather, DType::f32, count, 0, in.data(), out.data(), nullptr});
  world.barrier();
  return 0;
}

int stuck(comm::World& world) {
  const auto group = world.split(0);
  const execute::Watchdog watchdog(
      0.5, [] { return std::uint64_t{0}; },
      execute::report_and_exit([&] { return fmt::format("rank {}: barrier pending", world.rank()); }, world, 0.5));
  while (world.rank() == 0) std::this_thread::sleep_for(std::chrono::seconds(1));
  world.barrier();
  return 0;
}

int run(const std::string& mode, comm::World& world) {
  if (mode == "check") return check(world);
  if (mode == "mismatch") return mismatch(world);
  if (mode == "stuck") return stuck(world);
  world.barrier();
  if (mode == "user-error") throw UserError("grid 3", "a divisor of 4", "");
  if (mode == "one-error" && world.rank() == 1) throw UserError("no such file", "", "");
  if (mode == "fault" && world.rank() == 1) throw RuntimeFault("disk full");
  world.barrier();
  return 0;
}

}  // namespace
}  // namespace weft::testing

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "check";
  return weft::comm::run_mpi([&](weft::comm::World& world) { return weft::testing::run(mode, world); });
}
