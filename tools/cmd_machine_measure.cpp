// `weft machine measure`: writes a machine file of the CPUs or GPUs at hand and of the links between ranks.
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files/durable_file.h"
#include "base/printable.h"
#include "base/status_line.h"
#include "base/text/json_object.h"
#include "kernels/cpu/isa/kernel_choice.h"
#include "runtime/comm/launch.h"
#include "runtime/comm/mpi.h"
#include "runtime/cost/machine.h"
#include "runtime/cost/machine_fit.h"
#include "runtime/cost/machine_numbers.h"
#include "tools/command_line/commands.h"
#include "tools/command_line/shared_options.h"
#include "train/measure/machine_timer.h"
#include "train/measure/measure_machine.h"
#include "train/run/launch_run.h"

namespace weft::tools {
namespace {

struct MeasureOptions {
  std::string output, device = "cpu";
  int ranks = 1, threads = 1;
  bool quick = false, json = false, quiet = false;

  train::DeviceKind kind() const { return device == "cuda" ? train::DeviceKind::cuda : train::DeviceKind::cpu; }
};

void expect_gpu_options(const MeasureOptions& options) {
  if (options.kind() == train::DeviceKind::cpu) return;
  if (options.threads != 1) {
    throw UserError(fmt::format("--threads {} with --device cuda", options.threads),
                    "GPUs, which no threads compute on", "leave --threads out");
  }
}

std::unique_ptr<train::MachineTimer> timer_of(const MeasureOptions& options, comm::World& world,
                                              const train::MachineSizes& sizes) {
  return options.kind() == train::DeviceKind::cuda ? train::make_gpu_timer(world, sizes)
                                                   : train::make_cpu_timer(world, sizes, options.threads);
}

/// The threads of this process, or the processes that mpirun started.
int on_ranks(const MeasureOptions& options, const comm::RankBody& body) {
  if (!comm::launched_by_mpi()) return comm::run_ranks(options.ranks, body);
  return comm::run_mpi([&](comm::World& world) {
    train::expect_same_build(world);
    train::expect_same_kernels(world, cpu::kernel_level());
    if (options.ranks != 1 && options.ranks != world.size()) {
      throw UserError(fmt::format("--ranks {} under mpirun with {} ranks", options.ranks, world.size()),
                      "the number of mpirun", "leave --ranks out");
    }
    return body(world);
  });
}

void tell_result(const MeasureOptions& options, const cost::Machine& machine, double seconds) {
  const std::vector<cost::CheckedPoint> points = cost::check_points(machine);
  const std::vector<std::string> unsure = cost::unsure_numbers(machine);
  print_result(
      options.json,
      JsonObject()
          .add("file", options.output)
          .add("machine", machine.name)
          .add("seconds", seconds)
          .add("gemm_points", machine.gemms.size())
          .add("attention_points", machine.attention.size())
          .add("calibration_points", machine.calibration.size())
          .add("unsure_numbers", unsure),
      fmt::format(
          "{}: {} points measured in {:.0f} s; simulate it by --machine {}\n`weft machine show` tells what each "
          "number rests on, `weft machine check` how far the model is off\n{}{}",
          options.output, points.size(), seconds, options.output, cost::unsure_text(unsure),
          unsure.empty() ? "" : "\n"));
}

int measure(const MeasureOptions& options) {
  // --machine takes other words for the names of Weft's own machines.
  if (!options.output.ends_with(".toml") && options.output.find('/') == std::string::npos) {
    throw UserError(fmt::format("-o {} would not be found by --machine", options.output), "a name that ends in .toml",
                    fmt::format("-o {}.toml", options.output));
  }
  expect_gpu_options(options);
  const train::MachineSizes sizes = train::machine_sizes(options.kind(), options.quick);
  return on_ranks(options, [&](comm::World& world) {
    const std::unique_ptr<train::MachineTimer> timer = timer_of(options, world, sizes);
    if (world.rank() == 0) expect_writable(options.output);
    const auto begin = std::chrono::steady_clock::now();
    const cost::Machine machine = [&] {
      StatusLine line(world.rank() == 0 && !options.quiet && !options.json);
      return train::measure_machine(world, std::filesystem::path(options.output).stem().string(), sizes, *timer,
                                    [&](const Status& status) { line.tell(status); });
    }();
    if (world.rank() == 0) {
      write_durable(options.output, cost::machine_toml(machine), Named::by_person);
      tell_result(options, machine, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    world.barrier();
    return 0;
  });
}

}  // namespace

Command describe_machine_measure() {
  Command command{"measure", "measure the CPUs or GPUs at hand, and write their machine file"};
  const auto options = std::make_shared<MeasureOptions>();
  command.add(required(path_option("-o,--output", &options->output, "FILE.toml",
                                   "the file to write, for --machine; its name is the machine's")));
  command.add(choice_option("--device", &options->device, "",
                            "what to measure: the cpu, or with cuda NVIDIA GPUs, one for each rank", {"cpu", "cuda"}));
  command.add(number_option("--ranks", &options->ranks, "ranks of this process; mpirun brings its own", 1, 4096));
  command.add(
      number_option("--threads", &options->threads, "with device cpu: threads that each rank computes on", 1, 4096));
  command.add({.names = "--quick", .target = &options->quick, .help = "fewer shapes, sizes and repeats"});
  command.add({.names = "--json", .target = &options->json, .help = "print what was measured as JSON"});
  command.add({.names = "--quiet", .target = &options->quiet, .help = "print only the result and errors"});
  command.description =
      "All ranks measure at once, as they compute in a step: products and attention by the kernels that steps call, "
      "the memory, the start of a task, and with several ranks each collective and what it takes from computations "
      "beside it. Latency and bandwidth are fitted to the collectives. Groups of ranks are measured at once, since "
      "they may share a link. Of several nodes, the ranks of each node are measured, then all ranks. With --device "
      "cuda steps of equal tasks are timed on the GPUs, which mpirun gives to its processes in turn, and collectives "
      "are those of NCCL.";
  command.examples = {{"weft machine measure --ranks 2 -o mine.toml"},
                      {"mpirun -np 4 weft machine measure -o cluster.toml", "with the network between nodes"},
                      {"mpirun -np 8 weft machine measure --device cuda -o gpus.toml", "eight GPUs and NCCL"},
                      {"weft machine check mine.toml"}};
  command.run = [options] { return measure(*options); };
  return command;
}

}  // namespace weft::tools
