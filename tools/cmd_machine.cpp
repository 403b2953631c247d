// `weft machine`: the numbers of a machine file and what they rest on, its model against its own measurements, the
// differences of two files, and a file of the CPUs or GPUs at hand and of the links between ranks.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files/durable_file.h"
#include "base/printable.h"
#include "base/status_line.h"
#include "base/text/json_object.h"
#include "base/text/text_table.h"
#include "kernels/cpu/isa/kernel_choice.h"
#include "runtime/comm/launch.h"
#include "runtime/comm/mpi.h"
#include "runtime/cost/machine.h"
#include "runtime/cost/machine_fit.h"
#include "runtime/cost/machine_numbers.h"
#include "study/columns.h"
#include "tools/command_line/commands.h"
#include "tools/command_line/shared_options.h"
#include "tools/input/config_options.h"
#include "tools/input/launch.h"
#include "train/measure/machine_timer.h"
#include "train/measure/measure_machine.h"
#include "train/run/launch_run.h"

namespace weft::tools {
namespace {

constexpr int kBeyondItsError = 1;

struct MachineOptions {
  std::string machine = "laptop", first, second;
  bool json = false;
};

cost::Machine find(const std::string& name) {
  return cost::find_machine(name, cost::machine_folders());
}

std::string or_dash(const std::string& text) {
  return text.empty() ? "-" : text;
}

study::Columns<cost::MachineNumber> number_columns() {
  using cost::MachineNumber;
  study::Columns<MachineNumber> columns;
  columns.add("key", &MachineNumber::key, {.head = "number", .words = true});
  columns.add("value", &MachineNumber::value).shown({.head = "value"}, cost::value_text);
  columns.add("unit", [](const MachineNumber& number) { return to_string(number.unit); });
  columns.add("status", &MachineNumber::status, {.head = "status", .words = true, .least = 8}, or_dash);
  columns.add("source", &MachineNumber::source, {.head = "source", .words = true, .least = 16, .rank = 1}, or_dash);
  return columns;
}

int show(const MachineOptions& options) {
  const cost::Machine machine = find(options.machine);
  const std::vector<cost::MachineNumber> numbers = cost::machine_numbers(machine);
  const std::vector<std::string> unsure = cost::unsure_numbers(machine);
  StyledText text(machine.name + "\n");
  text.add(table_text(number_columns().table(numbers), output_width()));
  text.add(fmt::format("measured points: {} of products, {} of attention; {} of calibration\n", machine.gemms.size(),
                       machine.attention.size(), machine.calibration.size()));
  if (!unsure.empty()) text.add(cost::unsure_text(unsure) + "\n", Emphasis::warning);
  for (const std::string& line : cost::implausible_numbers(machine)) text.add(line + "\n", Emphasis::warning);
  return print_result(options.json,
                      JsonObject()
                          .add("machine", machine.name)
                          .add("source", machine.source)
                          .add("numbers", number_columns().json(numbers))
                          .add("gemm_points", machine.gemms.size())
                          .add("attention_points", machine.attention.size())
                          .add("calibration_points", machine.calibration.size())
                          .add("unsure_numbers", unsure),
                      text);
}

std::string seconds_text(double seconds) {
  return cost::value_text({"", seconds, cost::MachineUnit::seconds, "", ""});
}

study::Columns<cost::CheckedPoint> point_columns() {
  using cost::CheckedPoint;
  study::Columns<CheckedPoint> columns;
  columns.add("point", &CheckedPoint::what, {.head = "point", .words = true});
  columns.add("predicted_seconds", &CheckedPoint::predicted, {.head = "predicted"}, seconds_text);
  columns.add("measured_seconds", &CheckedPoint::measured, {.head = "measured"}, seconds_text);
  columns.add("error", &CheckedPoint::error, {.head = "error %"},
              [](double error) { return fmt::format("{:+.1f}", 100 * error); });
  columns.add("allowed", &CheckedPoint::allowed, {.head = "allowed %"},
              [](double error) { return fmt::format("{:.0f}", 100 * error); });
  columns.add("holds", &CheckedPoint::holds, {.head = "within", .words = true},
              [](bool holds) { return holds ? "yes" : "NO"; });
  return columns;
}

int check(const MachineOptions& options) {
  const cost::Machine machine = find(options.machine);
  const std::vector<cost::CheckedPoint> points = cost::check_points(machine);
  const auto beyond = std::ranges::count_if(points, [](const cost::CheckedPoint& point) { return !point.holds(); });
  if (options.json) {
    say("{}\n", JsonObject()
                    .add("machine", machine.name)
                    .add("holds", beyond == 0)
                    .add("points", point_columns().json(points))
                    .text());
    return beyond == 0 ? 0 : kBeyondItsError;
  }
  if (points.empty()) {
    say("{} has no measured points: nothing to compare its model with\n", machine.name);
    return 0;
  }
  std::vector<double> errors;
  for (const cost::CheckedPoint& point : points) errors.push_back(std::abs(point.error()));
  std::ranges::sort(errors);
  StyledText text(table_text(point_columns().table(points), output_width()));
  text.add(fmt::format("{} of {} points are within their errors; half of them within {:.1f} %\n",
                       std::ssize(points) - beyond, points.size(), 100 * errors[(errors.size() - 1) / 2]),
           beyond == 0 ? Emphasis::good : Emphasis::bad);
  say(stdout, text);
  return beyond == 0 ? 0 : kBeyondItsError;
}

/// A number of two machines, of which one may lack it.
struct Difference {
  std::string key;
  const cost::MachineNumber* a = nullptr;
  const cost::MachineNumber* b = nullptr;

  bool both() const { return a != nullptr && b != nullptr; }
  double ratio() const { return b->value / a->value; }
};

/// Measured points as numbers, so that they compare like others.
std::vector<cost::MachineNumber> numbers_and_points(const cost::Machine& machine) {
  std::vector<cost::MachineNumber> numbers = cost::machine_numbers(machine);
  const auto add = [&](const auto& points) {
    for (const auto& point : points) {
      numbers.push_back({point_text(point), point.seconds, cost::MachineUnit::seconds, "measured", point.source});
    }
  };
  add(machine.gemms);
  add(machine.attention);
  return numbers;
}

/// In the order of `a`, then what `b` alone has.
std::vector<Difference> differences_of(const std::vector<cost::MachineNumber>& a,
                                       const std::vector<cost::MachineNumber>& b) {
  std::vector<Difference> differences;
  const auto find_in = [](const std::vector<cost::MachineNumber>& numbers, const std::string& key) {
    const auto found = std::ranges::find(numbers, key, &cost::MachineNumber::key);
    return found == numbers.end() ? nullptr : &*found;
  };
  for (const cost::MachineNumber& number : a) {
    const cost::MachineNumber* other = find_in(b, number.key);
    if (other == nullptr || other->value != number.value) differences.push_back({number.key, &number, other});
  }
  for (const cost::MachineNumber& number : b) {
    if (find_in(a, number.key) == nullptr) differences.push_back({number.key, nullptr, &number});
  }
  return differences;
}

int diff(const MachineOptions& options) {
  const cost::Machine first = find(options.first), second = find(options.second);
  const std::vector<cost::MachineNumber> a = numbers_and_points(first), b = numbers_and_points(second);
  const std::vector<Difference> differences = differences_of(a, b);
  if (options.json) {
    std::vector<JsonObject> list;
    for (const Difference& difference : differences) {
      JsonObject& object = list.emplace_back();
      object.add("key", difference.key).add("unit", to_string((difference.a ? difference.a : difference.b)->unit));
      if (difference.a != nullptr) object.add("a", difference.a->value);
      if (difference.b != nullptr) object.add("b", difference.b->value);
      if (difference.both()) object.add("ratio", difference.ratio());
    }
    say("{}\n", JsonObject()
                    .add("machine_a", first.name)
                    .add("machine_b", second.name)
                    .add("same", differences.empty())
                    .add("differences", list)
                    .text());
    return 0;
  }
  if (differences.empty()) {
    say("the machines have the same numbers\n");
    return 0;
  }
  TextTable table{.columns = {{.head = "number", .words = true},
                              {.head = first.name},
                              {.head = second.name},
                              {.head = "ratio"},
                              {.head = "status", .words = true, .least = 8, .rank = 1}}};
  for (const Difference& difference : differences) {
    const auto shown = [](const cost::MachineNumber* number) { return number ? value_text(*number) : "-"; };
    const auto status = [](const cost::MachineNumber* number) { return number ? or_dash(number->status) : "-"; };
    table.rows.push_back(
        {difference.key, shown(difference.a), shown(difference.b),
         difference.both() && difference.a->value != 0 ? fmt::format("{:.3g}", difference.ratio()) : "-",
         status(difference.a) + " → " + status(difference.b)});
  }
  say(stdout, table_text(table, output_width()));
  return 0;
}

CommandOption json_option(MachineOptions& options) {
  return {.names = "--json", .target = &options.json, .help = "print it as JSON"};
}

Command show_command(const std::shared_ptr<MachineOptions>& options) {
  Command command{"show", "all numbers of a machine, each with its source"};
  command.add(path_option("machine", &options->machine, "NAME|FILE", "a machine that comes with Weft, or a TOML file"));
  command.add(json_option(*options));
  command.description =
      "The status is that of the file: measured, fitted, assumed, …; default is a number that the file leaves at its "
      "default value.";
  command.examples = {{"weft machine show perlmutter"}, {"weft machine show my-cluster.toml --json"}};
  command.run = [options] { return show(*options); };
  return command;
}

Command check_command(const std::shared_ptr<MachineOptions>& options) {
  Command command{"check", "compare a machine's model with its measured points; exit code 1 if one is too far off"};
  command.add(required(
      path_option("machine", &options->machine, "NAME|FILE", "a TOML file, or a machine that comes with Weft")));
  command.add(json_option(*options));
  command.description =
      "Every point of [[calibration]] is predicted by the model. Every point of [[gemm]] and [[attention]] is "
      "predicted from the other ones, as if it hadn't been measured. `allowed` is the point's error.";
  command.examples = {{"weft machine check alps"}, {"weft machine check my-cluster.toml --json"}};
  command.run = [options] { return check(*options); };
  return command;
}

Command diff_command(const std::shared_ptr<MachineOptions>& options) {
  Command command{"diff", "the numbers in which two machines differ"};
  command.add(required(path_option("first", &options->first, "", "a machine that comes with Weft, or a TOML file")));
  command.add(required(path_option("second", &options->second, "", "another machine")));
  command.add(json_option(*options));
  command.examples = {{"weft machine diff perlmutter alps"}, {"weft machine diff before.toml after.toml --json"}};
  command.run = [options] { return diff(*options); };
  return command;
}

struct MeasureOptions {
  std::string output, device = "cpu";
  int ranks = 1, threads = 1;
  std::vector<train::Setting> meeting;  // of processes that no MPI starts
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

/// The threads of this process, or the processes that a launcher started.
int on_ranks(const MeasureOptions& options, const comm::RankBody& body) {
  train::RunConfig config = launched({});
  train::apply_settings(config, options.meeting);
  if (!config.launch && !comm::launched_by_mpi()) return comm::run_ranks(options.ranks, body);
  const auto on_process = [&](comm::World& world) {
    train::expect_same_build(world);
    train::expect_same_kernels(world, cpu::kernel_level());
    if (options.ranks != 1 && options.ranks != world.size()) {
      throw UserError(fmt::format("--ranks {} with {} processes", options.ranks, world.size()),
                      "the number of the launcher", "leave --ranks out");
    }
    return body(world);
  };
  if (config.launch) return comm::run_tcp(*config.launch, train::tcp_settings(config), on_process);
  return comm::run_mpi(on_process);
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

Command measure_command() {
  Command command{"measure", "measure the CPUs or GPUs at hand, and write their machine file"};
  const auto options = std::make_shared<MeasureOptions>();
  command.add(required(
      output_option(options->output, "FILE.toml", "the file to write, for --machine; its name is the machine's")));
  command.add(choice_option("--device", &options->device, "",
                            "what to measure: the cpu, or with cuda NVIDIA GPUs, one for each rank", {"cpu", "cuda"}));
  command.add(number_option("--ranks", &options->ranks, "ranks of this process; mpirun brings its own", 1, 4096));
  add_keys(command, "machine measure", options->meeting);
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

}  // namespace

Command describe_machine() {
  Command command{"machine", "machine files: show, check, diff, measure"};
  const auto options = std::make_shared<MachineOptions>();
  command.subcommands = {show_command(options), check_command(options), diff_command(options), measure_command()};
  command.examples = {{"weft machine show perlmutter"},
                      {"weft machine check my-cluster.toml"},
                      {"weft machine diff perlmutter alps"},
                      {"weft machine measure --ranks 2 -o mine.toml"}};
  return command;
}

}  // namespace weft::tools
