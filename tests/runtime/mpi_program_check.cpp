// A program for mpirun: whole programs over MPI give the bits of a plain loop and of local ranks, and their failures
// end every process.
//
//   mpirun -np 2 mpi_program_check          runs random graphs under every policy, on the CPU and on fake devices whose
//                                           collectives are staged, and compares
//   mpirun -np 3 mpi_program_check fault    one rank throws between steps: exit code 3
//   mpirun -np 3 mpi_program_check stuck    one rank never runs its step; the watchdogs report: exit code 3
//   mpirun -np 3 mpi_program_check graphs   one rank has another graph: refused by all, exit code 3
//   mpirun -np 3 mpi_program_check option   bad policy options: one report, exit code 2
#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "base/error.h"
#include "runtime/comm/launch.h"
#include "runtime/execute/device/device_team.h"
#include "runtime/execute/device/transport.h"
#include "runtime/execute/program/program.h"
#include "runtime/policy/catalog/policies.h"
#include "tests/runtime/executable_graph.h"
#include "tests/runtime/execute/device/fake_device.h"
#include "tests/runtime/odd_world.h"
#include "tests/runtime/policy/quick_policies.h"

namespace weft::testing {
namespace {

constexpr int kSteps = 3;

std::uint64_t hash_of(const testing::StateBytes& state) {
  Fingerprint hash;
  for (const auto& [name, bytes] : state) {
    hash.add(name);
    for (const std::byte byte : bytes) hash.add(static_cast<std::uint8_t>(byte));
  }
  return hash.value();
}

std::uint64_t run_program(comm::World& world, const std::shared_ptr<const graph::Graph>& graph,
                          const execute::ProgramOptions& options) {
  execute::Program program(world, {{"train", graph}}, options);
  testing::fill(*graph, program.state(), world.rank());
  program.state_to_device();
  for (int step = 0; step < kSteps; ++step) program.run("train", step);
  program.state_to_host();
  return hash_of(testing::bytes_of(*graph, program.state()));
}

std::unique_ptr<execute::Executor> staged_executor(comm::World& world, const execute::State& state) {
  const execute::DeviceExecutorOptions options{.kept_steps = 1, .trace_every = 2};
  auto device = make_fake_device({.seed = static_cast<std::uint64_t>(world.rank()) + 1});
  auto team = std::make_shared<execute::DeviceTeam>(std::move(device), 1, std::nullopt, options,
                                                    execute::make_staged_transport(world, std::nullopt));
  return execute::make_device_executor(std::move(team), world, state);
}

int check(comm::World& world) {
  int code = 0;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    const auto graph = testing::executable_graph(seed, world.size());
    const auto expected =
        testing::reference_states(graph, world.size(), kSteps)[static_cast<std::size_t>(world.rank())];
    for (const std::string& policy : testing::quick_graph_policies()) {
      const int streams = 1 + static_cast<int>(seed % 3), threads = 1 + static_cast<int>(seed % 2);
      execute::ProgramOptions options{
          .policy = policy::make_policy(policy), .policy_options = {.compute_streams = streams}, .threads = threads};
      testing::OddWorld hesitant = testing::hesitant_world(world, seed);
      comm::World& used = seed % 2 == 0 ? static_cast<comm::World&>(hesitant) : world;
      for (const char* executor : {"cpu", "staged"}) {
        if (std::string_view(executor) == "staged") options.make_executor = staged_executor;
        if (run_program(used, graph, options) == hash_of(expected)) continue;
        fmt::print(stderr, "graph {}, {}, {}: rank {} has other bits than the reference\n", seed, policy, executor,
                   world.rank());
        code = 1;
      }
    }
  }
  for (const std::uint64_t rank_code : world.all_gather(static_cast<std::uint64_t>(code))) {
    if (rank_code != 0) code = 1;
  }
  return code;
}

int run(const std::string& mode, comm::World& world) {
  if (mode == "check") return check(world);
  const bool odd = world.rank() == 1;
  const auto graph = testing::executable_graph(mode == "graphs" && odd ? 4 : 3, world.size());
  execute::ProgramOptions options{.watchdog_seconds = mode == "stuck" ? 1.0 : 0.0};
  if (mode == "option") options.policy_options.compute_streams = 0;
  execute::Program program(world, {{"train", graph}}, options);
  program.run("train");
  if (mode == "fault" && odd) throw RuntimeFault("disk full");
  while (mode == "stuck" && odd) std::this_thread::sleep_for(std::chrono::seconds(1));
  program.run("train");
  return 0;
}

}  // namespace
}  // namespace weft::testing

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "check";
  return weft::comm::run_mpi([&](weft::comm::World& world) { return weft::testing::run(mode, world); });
}
