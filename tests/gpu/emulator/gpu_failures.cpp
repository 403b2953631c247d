// Training on emulated GPUs in which calls of CUDA, cuBLASLt and NCCL fail: each run must end in time, with a cause
// that is told, or with the losses of a run without a failure. Every run is a process of its own.
//
//   gpu_failures --trials 1000 --seed 1        random failures; prints how often each function failed
//   gpu_failures --fault abort-hangs           one of the named faults; --fault all: each of them
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/hash.h"
#include "ops/pipeline_layout.h"
#include "runtime/execute/cuda/nccl_transport.h"
#include "runtime/policy/catalog/policies.h"
#include "tests/gpu/emulator/failures.h"
#include "tests/gpu/emulator/gpu.h"
#include "tests/gpu/gpu_run.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;
using emulator::Failure;
using emulator::FailureMode;

constexpr double kPeersCome = 3, kPeersLeave = 1, kRelease = 3, kWatchdog = 4;  // seconds
// Of a trial; the thread sanitizer makes the emulator's switches between threads of a block many times as slow.
#ifdef __SANITIZE_THREAD__
constexpr std::chrono::seconds kMost{600};
#else
constexpr std::chrono::seconds kMost{90};
#endif

// As processes have it, or as threads of one process.
enum class Ranks : std::uint8_t { processes, threads };

testing::GridRun with_limits(const testing::GridRun& run, Ranks ranks, bool graphs,
                             const execute::NcclSettings& settings = {}) {
  const execute::DeviceExecutorOptions options{.kept_steps = 1,
                                               .trace_every = 4,
                                               .graphs = graphs,
                                               .group_gathers = settings.grouped_gathers,
                                               .release_seconds = kRelease};
  const auto make_transport = [ranks, settings](comm::World& world, const graph::Grid& grid, execute::Device& device) {
    constexpr execute::TransportLimits kLimits{
        .peers_come = kPeersCome, .peers_leave = kPeersLeave, .release = kRelease};
    if (ranks == Ranks::threads) return execute::make_nccl_transport(world, grid, device, kLimits, settings);
    auto& gpu = dynamic_cast<execute::CudaDevice&>(device);
    return std::unique_ptr<execute::DeviceTransport>(
        new execute::NcclTransport(world, grid, gpu, kLimits, false, settings));
  };
  return testing::in_own_teams(run, options, std::nullopt, make_transport);
}

// Two timed steps, one that is captured or runs ahead, and a timed step.
testing::GridRun tiny_run(const graph::Grid& grid) {
  testing::GridRun run = testing::narrow_run(grid);
  run.model.layers = grid.pipe > 1 ? 2 : 1;
  run.steps = 4;
  run.warmup = 2;
  run.step.dtype = DType::bf16;
  if (grid.pipe > 1) {
    run.model.tied = false;
    run.policy = "1f1b";
    run.step.micro_batches = 2;
    run.step.pipeline =
        ops::balanced_layout(run.model, run.step.seq_len, grid.pipe, policy::make_policy(run.policy)->chunks());
  }
  return run;
}

testing::GridRun tiny_run_of_experts(const graph::Grid& grid) {
  testing::GridRun run = tiny_run(grid);
  run.model = testing::of_family(ops::Family::mixtral, {1, /*hidden=*/16, /*heads=*/2, /*kv_heads=*/2, 8, 12, 4});
  return run;
}

struct Scenario {
  std::string_view name;
  testing::GridRun run;
};

std::vector<Scenario> scenarios() {
  graph::Grid shards, stages, columns, experts;
  shards.z = 2, stages.pipe = 2, columns.x = 2, experts.z = experts.expert = 2;
  return {{"z=2, replayed", with_limits(tiny_run(shards), Ranks::processes, true)},
          {"x=2", with_limits(tiny_run(columns), Ranks::threads, false)},
          {"pipe=2, replayed", with_limits(tiny_run(stages), Ranks::processes, true)},
          {"z=2 in one process", testing::on_gpu(tiny_run(shards), true)},
          {"x=2 through the host", testing::on_gpu_staged(tiny_run(columns))},
          {"z=2,expert=2, replayed", with_limits(tiny_run_of_experts(experts), Ranks::threads, true)},
          {"z=2, supervised", with_limits(tiny_run(shards), Ranks::processes, true,
                                          {.grouped_gathers = true, .supervised = true, .registered = true})}};
}

// What a process tells of its run on its standard output, as its last line.
struct Outcome {
  int exit_code = 0;
  std::size_t came = 0;      // failures
  std::uint64_t losses = 0;  // their fingerprint
  std::size_t misuses = 0;   // of the emulated GPUs
  std::string text;          // everything that the process printed
  double seconds = 0;
  bool in_time = true;
  int signal = 0;
};

std::uint64_t fingerprint(const testing::GridOutcome& outcome) {
  Fingerprint print;
  for (const double loss : outcome.losses)
    print.add(std::string_view(reinterpret_cast<const char*>(&loss), sizeof loss));
  return print.value();
}

// In a process of its own; doesn't return.
[[noreturn]] void run_here(const testing::GridRun& run, const std::vector<Failure>& failures, std::uint64_t seed,
                           bool count) {
  emulator::set_seed(seed);
  emulator::ask_for(failures);
  const testing::GridOutcome outcome = testing::run_grid(run);
  if (count) {
    for (const auto& [call, of] : emulator::calls()) {
      fmt::print("call {} {} {} {}\n", call.device, static_cast<int>(of.kind), of.count, call.name);
    }
  }
  fmt::print("{}ended {} {} {} {}\n", outcome.errors, outcome.exit_code, emulator::failures_came(),
             fingerprint(outcome), emulator::misuses());
  std::fflush(stdout);
  std::_Exit(outcome.exit_code);
}

struct Child {
  pid_t id = 0;
  std::FILE* output = nullptr;
  Clock::time_point begin = Clock::now();
};

Child start(const testing::GridRun& run, const std::vector<Failure>& failures, std::uint64_t seed, bool count = false) {
  std::FILE* const output = std::tmpfile();
  if (output == nullptr) throw std::runtime_error("no file");
  std::fflush(stdout);
  const pid_t id = fork();
  if (id < 0) throw std::runtime_error("no process");
  if (id == 0) {
    dup2(fileno(output), STDOUT_FILENO);
    dup2(fileno(output), STDERR_FILENO);
    run_here(run, failures, seed, count);
  }
  return {id, output};
}

// True once the child has ended or its time is over, with its outcome.
bool advance(Child& child, Outcome& outcome) {
  int status = 0;
  const bool late = Clock::now() - child.begin > kMost;
  if (late) kill(child.id, SIGKILL);
  if (waitpid(child.id, &status, late ? 0 : WNOHANG) == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return false;
  }
  outcome.in_time = !late;
  outcome.seconds = std::chrono::duration<double>(Clock::now() - child.begin).count();
  outcome.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  outcome.text.resize(static_cast<std::size_t>(lseek(fileno(child.output), 0, SEEK_END)));
  std::rewind(child.output);
  outcome.text.resize(std::fread(outcome.text.data(), 1, outcome.text.size(), child.output));
  std::fclose(child.output);
  const std::size_t last = outcome.text.rfind("ended ");
  if (last != std::string::npos) {
    std::istringstream(outcome.text.substr(last + 6)) >> outcome.exit_code >> outcome.came >> outcome.losses >>
        outcome.misuses;
  }
  return true;
}

Outcome outcome_of(Child child) {
  Outcome outcome;
  while (!advance(child, outcome)) {
  }
  return outcome;
}

// A function that a scenario calls on one GPU.
struct Target {
  emulator::Call call;
  emulator::CallCount calls;
};

struct Reference {
  std::uint64_t losses = 0;
  std::map<std::string, std::vector<Target>> targets;  // by the function's name
};

Reference reference_of(const Scenario& scenario) {
  const Outcome outcome = outcome_of(start(scenario.run, {}, 1, true));
  Reference reference{outcome.losses, {}};
  std::istringstream lines(outcome.text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("call ")) continue;
    Target target;
    int kind = 0;
    std::istringstream words(line.substr(5));
    words >> target.call.device >> kind >> target.calls.count >> std::ws;
    std::getline(words, target.call.name);  // a kernel's may have blanks
    target.calls.kind = static_cast<emulator::CallKind>(kind);
    reference.targets[target.call.name].push_back(target);
  }
  if (outcome.exit_code != 0 || reference.targets.empty()) {
    fmt::print(stderr, "{} fails by itself:\n{}", scenario.name, outcome.text);
    std::exit(1);
  }
  return reference;
}

// What is wrong about the end of a run; empty: nothing.
std::string fault_of(const Outcome& outcome, const Reference& reference) {
  if (!outcome.in_time) return fmt::format("hung for {} s", kMost.count());
  if (outcome.signal != 0) return fmt::format("ended by signal {}", outcome.signal);
  if (outcome.misuses > 0) return "used the GPU wrongly";
  if (outcome.exit_code == 0) return outcome.losses == reference.losses ? "" : "other losses, without an error";
  if (outcome.exit_code != 2 && outcome.exit_code != 3) return fmt::format("exit code {}", outcome.exit_code);
  const auto says = [&](const char* words) { return outcome.text.find(words) != std::string::npos; };
  if (!says("error:") && !says("no progress")) return "no cause is told";
  return says("exception of unknown type") ? "a cause without a name" : "";
}

template <class All>
const auto& any_of(const All& all, std::mt19937_64& random) {
  return *std::next(all.begin(), static_cast<std::ptrdiff_t>(random() % all.size()));
}

// Calls with which a run ends after a failure; a second failure hits one of them.
constexpr std::array kLast = {"ncclCommAbort",
                              "ncclGroupStart",
                              "ncclGroupEnd",
                              "cudaStreamSynchronize",
                              "cudaStreamEndCapture in a capture",
                              "cudaGraphDestroy",
                              "cudaEventQuery",
                              "cudaGraphExecDestroy",
                              "cudaDeviceSynchronize",
                              "cudaFree",
                              "cudaEventDestroy",
                              "cudaStreamDestroy",
                              "ncclCommGetAsyncError",
                              "cudaSetDevice"};

struct Trial {
  std::size_t scenario = 0;
  std::uint64_t seed = 0;
  std::vector<Failure> failures;
  bool watched = false;
};

FailureMode mode_of(emulator::CallKind kind, std::mt19937_64& random) {
  const std::size_t modes = kind == emulator::CallKind::host ? 2 : 4;
  return static_cast<FailureMode>(random() % modes);
}

Trial random_trial(const std::vector<Reference>& references, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Trial trial{random() % references.size(), seed, {}, false};
  const Reference& reference = references[trial.scenario];
  const Target& target = any_of(any_of(reference.targets, random).second, random);
  trial.failures.push_back({target.call, random() % target.calls.count, mode_of(target.calls.kind, random)});
  // Work that never ends is the watchdog's to notice.
  trial.watched = target.calls.kind == emulator::CallKind::work && trial.failures.front().mode == FailureMode::never;
  if (random() % 3 == 0) {
    const std::string name = kLast[random() % kLast.size()];
    const FailureMode mode =
        mode_of(name == "ncclCommAbort" ? emulator::CallKind::nccl : emulator::CallKind::host, random);
    trial.failures.push_back({{name, static_cast<int>(random() % 2)}, random() % 3, mode});
  }
  return trial;
}

std::string describe(const Trial& trial, const std::vector<Scenario>& all) {
  constexpr std::array kModes = {"once", "sticky", "late", "never"};
  std::string text = fmt::format("seed {}, {}:", trial.seed, all[trial.scenario].name);
  for (const Failure& failure : trial.failures) {
    text += fmt::format(" {} of GPU {}, call {}, {};", failure.call.name, failure.call.device, failure.occurrence,
                        kModes[static_cast<std::size_t>(failure.mode)]);
  }
  return text;
}

struct Row {
  int trials = 0, came = 0, told = 0, harmless = 0;
  double longest = 0;
};

Child start(const Trial& trial, const std::vector<Scenario>& all) {
  testing::GridRun run = all[trial.scenario].run;
  if (trial.watched) run.watchdog_seconds = kWatchdog;
  return start(run, trial.failures, trial.seed);
}

int random_trials(int count, std::uint64_t seed, std::size_t jobs, const std::vector<Scenario>& all) {
  std::vector<Reference> references;
  for (const Scenario& scenario : all) references.push_back(reference_of(scenario));
  std::map<std::string, Row> rows;
  for (const Reference& reference : references) {
    for (const auto& [name, targets] : reference.targets) rows[name];
  }
  struct Running {
    Trial trial;
    Child child;
  };
  std::vector<Running> running;
  int begun = 0, wrong = 0;
  while (begun < count || !running.empty()) {
    while (begun < count && running.size() < jobs) {
      Trial trial = random_trial(references, seed + static_cast<std::uint64_t>(begun++));
      running.push_back({trial, start(trial, all)});
    }
    std::erase_if(running, [&](Running& each) {
      Outcome outcome;
      if (!advance(each.child, outcome)) return false;
      const std::string fault = fault_of(outcome, references[each.trial.scenario]);
      if (!fault.empty()) {
        ++wrong;
        fmt::print("WRONG {}: {}\n{}\n", describe(each.trial, all), fault, outcome.text);
      }
      Row& row = rows[each.trial.failures.front().call.name];
      ++row.trials;
      row.came += outcome.came > 0 || outcome.exit_code != 0 ? 1 : 0;
      ++(outcome.exit_code == 0 ? row.harmless : row.told);
      row.longest = std::max(row.longest, outcome.seconds);
      return true;
    });
    if (begun % 500 == 0 && running.size() == jobs) fmt::print(stderr, "\r{} of {} ", begun, count);
  }
  fmt::print("{:<44} {:>7} {:>7} {:>12} {:>14} {:>10}\n", "function", "trials", "failed", "cause told", "losses equal",
             "longest, s");
  int missed = 0;
  for (const auto& [name, row] : rows) {
    fmt::print("{:<44} {:>7} {:>7} {:>12} {:>14} {:>10.2f}\n", name, row.trials, row.came, row.told, row.harmless,
               row.longest);
    if (row.came == 0) ++missed;
  }
  fmt::print("{} trials, {} wrong, {} of {} functions never failed\n", count, wrong, missed, rows.size());
  return wrong == 0 ? 0 : 1;
}

// One of the faults that were found by reading or by random failures, each by the failures that showed it.
struct Named {
  std::string_view name;
  std::string_view scenario;
  std::vector<Failure> failures;
};

std::vector<Named> named_faults() {
  constexpr FailureMode once = FailureMode::once, late = FailureMode::late, never = FailureMode::never;
  return {
      // The peers of a captured collective never come, and then NCCL doesn't come back from its abort.
      {"abort-hangs",
       "z=2, replayed",
       {{{"ncclAllGather in a capture", 0}, 0, never}, {{"ncclCommAbort", 0}, 0, never}}},
      {"capture-fails", "z=2, replayed", {{{"cudaStreamWaitEvent in a capture", 0}, 1, once}}},
      // The other rank leaves its split while NCCL goes on with it.
      {"split-loses-a-peer", "z=2, replayed", {{{"ncclCommSplit", 1}, 1, once}}},
      {"split-fails-late", "z=2, replayed", {{{"ncclCommSplit", 1}, 1, late}}},
      {"split-never-ends", "z=2, replayed", {{{"ncclCommSplit", 1}, 1, never}}},
      {"collective-fails-late", "x=2", {{{"ncclAllReduce", 1}, 3, late}}},
      // The copy of the state goes on while its memory is freed.
      {"state-never-comes", "z=2, replayed", {{{"cudaMemcpyAsync", 0}, 33, never}}},
      {"state-never-awaited", "z=2 in one process", {{{"cudaStreamSynchronize", 0}, 1, once}}},
      {"peers-never-come", "pipe=2, replayed", {{{"ncclSend", 0}, 0, never}}},
      {"supervised-call-never-ends", "z=2, supervised", {{{"ncclReduceScatter", 1}, 1, never}}},
      {"supervised-call-fails-late", "z=2, supervised", {{{"ncclReduceScatter", 1}, 1, late}}},
      {"supervised-abort-hangs",
       "z=2, supervised",
       {{{"ncclReduceScatter", 1}, 1, never}, {{"ncclCommAbort", 1}, 0, never}}},
  };
}

int named_trials(std::string_view asked, const std::vector<Scenario>& all) {
  int wrong = 0;
  for (const Named& fault : named_faults()) {
    if (asked != "all" && asked != fault.name) continue;
    const Scenario& scenario = *std::ranges::find(all, fault.scenario, &Scenario::name);
    const Reference reference = reference_of(scenario);
    const Outcome outcome = outcome_of(start(scenario.run, fault.failures, 1));
    std::string found = fault_of(outcome, reference);
    if (found.empty() && outcome.exit_code == 0) found = "the failure was not noticed";
    fmt::print("{}: {} after {:.1f} s\n", fault.name, found.empty() ? "ends with a cause" : found, outcome.seconds);
    if (!found.empty()) fmt::print("{}\n", outcome.text);
    wrong += found.empty() ? 0 : 1;
  }
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  int trials = 0;
  std::uint64_t seed = 1;
  std::size_t jobs = 8;  // most of a trial is waiting
  std::string fault;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view flag = argv[i];
    if (flag == "--trials") trials = std::atoi(argv[i + 1]);
    if (flag == "--seed") seed = std::strtoull(argv[i + 1], nullptr, 10);
    if (flag == "--jobs") jobs = std::strtoull(argv[i + 1], nullptr, 10);
    if (flag == "--fault") fault = argv[i + 1];
  }
  if ((trials <= 0 && fault.empty()) || jobs == 0 || argc % 2 == 0) {
    fmt::print(stderr, "Usage: gpu_failures --trials N [--seed N] [--jobs N] | --fault NAME|all\n");
    return 2;
  }
  const auto all = weft::scenarios();
  return fault.empty() ? weft::random_trials(trials, seed, jobs, all) : weft::named_trials(fault, all);
}
