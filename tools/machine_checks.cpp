#include "tools/machine_checks.h"

#define OMPI_SKIP_MPICXX 1  // the retired C++ bindings would need a library of their own
#include <cpuid.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gvc.h>
#include <mpi.h>
#include <oneapi/dnnl/dnnl.h>
#include <oneapi/tbb/version.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/shared_library.h"
#include "kernels/cpu/gemm/packed_unit.h"
#include "kernels/cpu/isa/kernel_choice.h"
#include "runtime/comm/mpi.h"
#include "runtime/execute/cpu/core_binding.h"
#include "runtime/execute/device/devices.h"

namespace weft::tools {

namespace {

using Checks = std::vector<MachineCheck>;

constexpr const char* kSysfs = "/sys";

/// The value behind "key : value" in a /proc file; "" if there is none.
std::string proc_field(const char* path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || !line.starts_with(key)) continue;
    const std::size_t start = line.find_first_not_of(" \t", colon + 1);
    return start == std::string::npos ? "" : line.substr(start);
  }
  return "";
}

struct Feature {
  const char* name;
  bool present;
  const char* enables;
};

std::vector<Feature> processor_features() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool leaf7 = __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0;
  const bool amx_bf16 = leaf7 && ((d >> 22) & 1U) != 0;
  const bool avx512_bf16 = leaf7 && a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && ((a >> 5) & 1U) != 0;
  return {{"AVX2", __builtin_cpu_supports("avx2") != 0, "8-wide fp32 kernels"},
          {"FMA", __builtin_cpu_supports("fma") != 0, "fused multiply-add in GEMM"},
          {"AVX-512F", __builtin_cpu_supports("avx512f") != 0, "16-wide fp32 GEMM in oneDNN"},
          {"AVX512_BF16", avx512_bf16, "rounding to bf16, and products of its pairs where they are faster than fp32"},
          {"AMX-BF16", amx_bf16, "tiles of bf16 in Weft's own products, and in oneDNN"}};
}

std::string_view onednn_isa() {
  switch (dnnl_get_effective_cpu_isa()) {
    case dnnl_cpu_isa_sse41:
      return "SSE4.1";
    case dnnl_cpu_isa_avx:
      return "AVX";
    case dnnl_cpu_isa_avx2:
      return "AVX2";
    case dnnl_cpu_isa_avx2_vnni:
      return "AVX2 with VNNI";
    case dnnl_cpu_isa_avx512_core:
      return "AVX-512";
    case dnnl_cpu_isa_avx512_core_vnni:
      return "AVX-512 with VNNI";
    case dnnl_cpu_isa_avx512_core_bf16:
      return "AVX-512 with BF16";
    case dnnl_cpu_isa_avx512_core_amx:
      return "AVX-512 with AMX";
    default:
      return "another instruction set";
  }
}

void check_processor(Checks& checks) {
  const std::string section = "processor";
  checks.push_back({section, "model", proc_field("/proc/cpuinfo", "model name"), CheckState::ok, ""});
  for (const Feature& feature : processor_features()) {
    checks.push_back({section, feature.name, feature.present ? "yes" : "no",
                      feature.present ? CheckState::ok : CheckState::absent, feature.enables});
  }
  const std::vector<std::string> levels = cpu::built_levels();
  checks.push_back({section, "kernels", std::string(cpu::kernel_level()), CheckState::ok,
                    levels.size() == 1 ? "the level of this build" : "of " + join(levels) + "; --isa chooses"});
  checks.push_back({section, "oneDNN uses", std::string(onednn_isa()), CheckState::ok, "fp32 GEMM"});
  const PackedUnit widest = cpu::widest_bf16_unit();
  checks.push_back(check_bf16(widest, widest == PackedUnit::pairs ? cpu::pairs_gain() : std::nullopt));
}

void check_cores(Checks& checks) {
  const std::string section = "cores and memory";
  checks.push_back({section, "logical cores", fmt::format("{}", sysconf(_SC_NPROCESSORS_ONLN)), CheckState::ok, ""});
  const std::size_t physical = execute::physical_cores(kSysfs).size();
  checks.push_back({section, "physical cores", physical > 0 ? fmt::format("{}", physical) : "unknown",
                    physical > 0 ? CheckState::ok : CheckState::absent, ""});
  const std::size_t given = execute::given_cores().count();
  checks.push_back({section, "usable cores", given > 0 ? fmt::format("{}", given) : "unknown",
                    given > 0 ? CheckState::ok : CheckState::absent,
                    "this process's affinity; threads = 0 divides them among the ranks"});
  for (const auto& [name, key] : {std::pair{"memory", "MemTotal"}, std::pair{"free memory", "MemAvailable"}}) {
    const double kib = std::strtod(proc_field("/proc/meminfo", key).c_str(), nullptr);
    checks.push_back({section, name, fmt::format("{:.1f} GiB", kib / (1024.0 * 1024.0)), CheckState::ok, ""});
  }
}

/// What an MPI process of its own says about threads: a level, or -1 if it didn't start within the time.
int mpi_thread_level() {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) {
    const int null = open("/dev/null", O_WRONLY);
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    int level = -1;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
    const bool written = write(ends[1], &level, sizeof level) == sizeof level;
    MPI_Finalize();
    _exit(written ? 0 : 1);
  }
  close(ends[1]);
  int level = -1;
  if (child > 0) {
    pollfd ready{ends[0], POLLIN, 0};
    constexpr int kWaitMilliseconds = 30000;
    if (poll(&ready, 1, kWaitMilliseconds) != 1 || read(ends[0], &level, sizeof level) != sizeof level) {
      level = -1;
      kill(child, SIGKILL);
    }
    waitpid(child, nullptr, 0);
  }
  close(ends[0]);
  return level;
}

void check_mpi(Checks& checks) {
  checks.push_back({"libraries", "MPI", comm::mpi_version(), CheckState::ok,
                    "ranks as processes, on one machine or many: mpirun -np N weft train …"});
  const int level = mpi_thread_level();
  const std::string name = level == MPI_THREAD_MULTIPLE     ? "multiple"
                           : level == MPI_THREAD_SERIALIZED ? "serialized"
                           : level == MPI_THREAD_FUNNELED   ? "funneled"
                           : level == MPI_THREAD_SINGLE     ? "single"
                                                            : "did not start";
  const bool usable = level >= MPI_THREAD_SERIALIZED;
  checks.push_back({"libraries", "MPI threads", name, usable ? CheckState::ok : CheckState::failed,
                    usable ? "compute threads take turns in advancing collectives"
                           : "at least serialized is needed under mpirun; --ranks N needs no MPI"});
}

/// Draws a two-node graph, which loads the layout and rendering plugins.
void check_graphviz(Checks& checks) {
  GVC_t* context = gvContext();
  const std::string version = gvcVersion(context);
  Agraph_t* graph = agmemread("digraph { a -> b }");
  bool drawn = false;
  if (graph != nullptr && gvLayout(context, graph, "dot") == 0) {
    char* svg = nullptr;
    unsigned size = 0;
    drawn = gvRenderData(context, graph, "svg", &svg, &size) == 0 && size > 0;
    gvFreeRenderData(svg);
    gvFreeLayout(context, graph);
  }
  if (graph != nullptr) agclose(graph);
  gvFreeContext(context);
  checks.push_back(
      {"libraries", "Graphviz", version, drawn ? CheckState::ok : CheckState::failed,
       drawn ? "draws graphs as SVG" : "its dot and svg plugins don't load: install graphviz, run dot -c"});
}

void check_libraries(Checks& checks) {
  const dnnl_version_t* dnnl = dnnl_version();
  checks.push_back(
      {"libraries", "oneDNN", fmt::format("{}.{}.{}", dnnl->major, dnnl->minor, dnnl->patch), CheckState::ok, "GEMM"});
  checks.push_back({"libraries", "oneTBB", TBB_runtime_version(), CheckState::ok, "threads inside a task"});
  check_mpi(checks);
  check_graphviz(checks);
}

/// The path of nvcc in the toolkit's usual folder or in PATH; "" if there is none.
std::string find_nvcc() {
  std::vector<std::string> folders{"/usr/local/cuda/bin"};
  if (const char* path = std::getenv("PATH")) {
    std::istringstream list(path);
    for (std::string folder; std::getline(list, folder, ':');) folders.push_back(folder);
  }
  for (const std::string& folder : folders) {
    std::string candidate = folder + "/nvcc";
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

/// The driver's library: CUDA version, and devices if it starts.
std::string driver_text(const SharedLibrary& driver) {
  int version = 0, devices = 0;
  const auto get_version = driver.find<int(int*)>("cuDriverGetVersion");
  const auto init = driver.find<int(unsigned)>("cuInit");
  const auto count = driver.find<int(int*)>("cuDeviceGetCount");
  if (get_version == nullptr || init == nullptr || count == nullptr || get_version(&version) != 0) return "unusable";
  const bool started = init(0) == 0 && count(&devices) == 0;
  return fmt::format("CUDA {}.{}, {}", version / 1000, version % 1000 / 10,
                     started ? fmt::format("{} device(s)", devices) : "no device that starts");
}

std::string nccl_text(const SharedLibrary& nccl) {
  int version = 0;
  const auto get_version = nccl.find<int(int*)>("ncclGetVersion");
  if (get_version == nullptr || get_version(&version) != 0) return "unusable";
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

void check_gpu(Checks& checks) {
  const std::string section = "GPU";
  const execute::DeviceReport report = execute::report_devices();
  const auto add = [&](const std::string& name, const std::string& value, const std::string& note = "") {
    checks.push_back({section, name, value.empty() ? "not found" : value,
                      value.empty() ? CheckState::absent : CheckState::ok, note});
  };
  add("GPU code", report.built ? "built" : "", report.built ? join(report.libraries) : "a build with a toolkit has it");
  add("CUDA toolkit", find_nvcc());
  const SharedLibrary driver(std::array<std::string, 1>{"libcuda.so.1"});
  add("driver", driver ? driver_text(driver) : "");
  const SharedLibrary nccl(std::array<std::string, 1>{"libnccl.so.2"});
  add("NCCL", nccl ? nccl_text(nccl) : "");
  if (!report.unusable.empty()) add("cuBLASLt", "", report.unusable);
  if (report.devices.empty()) add("device", "", report.missing);
  for (std::size_t i = 0; i < report.devices.size(); ++i) {
    add(fmt::format("device {}", i), report.devices[i], "weft train --device cuda");
    const execute::PciPlace place = execute::place_of(kSysfs, report.addresses[i]);
    if (place.node < 0) continue;
    add(fmt::format("near device {}", i), fmt::format("cores {}", execute::to_string(place.cores)),
        fmt::format("NUMA node {}{}; --bind auto runs its ranks there", place.node,
                    place.networks.empty() ? "" : ", with " + join(place.networks)));
  }
}

}  // namespace

std::string_view to_string(CheckState state) {
  switch (state) {
    case CheckState::ok:
      return "ok";
    case CheckState::absent:
      return "absent";
    case CheckState::failed:
      return "failed";
  }
  return "?";
}

MachineCheck check_bf16(PackedUnit widest, std::optional<double> pairs_gain) {
  MachineCheck check{"processor", "bf16 GEMM", "in fp32", CheckState::ok, ""};
  const std::string memory = "--dtype bf16 halves the memory of activations";
  switch (cpu::fastest_bf16_unit(widest, pairs_gain)) {
    case PackedUnit::amx:
      check.value = "AMX";
      check.note = "--dtype bf16 is faster and halves the memory of activations";
      break;
    case PackedUnit::pairs:
      check.value = "AVX512_BF16";
      check.note = fmt::format("its pairs are {:.2f} times as fast as fp32: --dtype bf16 is faster and {}",
                               pairs_gain.value_or(0), "halves the memory of activations");
      break;
    case PackedUnit::f32:
      check.note = memory + "; its products run on fp32 tiles";
      if (pairs_gain) {
        check.note += fmt::format(", because AVX512_BF16's pairs are {:.2f} times as fast as fp32 here", *pairs_gain);
      }
      break;
  }
  return check;
}

std::vector<MachineCheck> check_machine() {
  Checks checks;
  check_processor(checks);
  check_cores(checks);
  check_libraries(checks);
  check_gpu(checks);
  return checks;
}

}  // namespace weft::tools
