#include "train/step/device_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "runtime/execute/cpu/core_binding.h"
#include "runtime/execute/device/device_memory.h"
#include "runtime/execute/device/device_team.h"
#include "runtime/execute/device/devices.h"
#include "runtime/execute/device/transport.h"

namespace weft::train {
namespace {

// No rank allocates before all have read the free memory.
std::int64_t share_of_memory(comm::World& world, const execute::Device& device) {
  const auto views = comm::of_ranks(world, execute::DeviceView{device.identity(), device.memory().free});
  return execute::memory_share(views, static_cast<std::size_t>(world.rank()));
}

std::shared_ptr<execute::DeviceTeam> team_of(comm::World& world, const RunConfig& config,
                                             const execute::DeviceExecutorOptions& options,
                                             const execute::CudaSettings& settings) {
  execute::expect_cuda_device();
  const int ordinal = device_of(world);
  const CommunicatorKind kind = choose_communicator(config, surroundings_of(world));
  if (kind == CommunicatorKind::local) {
    return execute::make_team(world, [&] {
      std::unique_ptr<execute::Device> device = execute::make_cuda_device(0, settings);
      execute::DeviceExecutorOptions own = options;
      own.memory_bytes = std::max<std::int64_t>(1, device->memory().free / world.size());
      return std::make_shared<execute::DeviceTeam>(std::move(device), world.size(), config.grid, own);
    });
  }
  std::unique_ptr<execute::Device> device = execute::make_cuda_device(ordinal, settings);
  execute::DeviceExecutorOptions own = options;
  own.memory_bytes = share_of_memory(world, *device);
  std::unique_ptr<execute::DeviceTransport> transport;
  if (kind == CommunicatorKind::nccl) {
    transport =
        execute::make_nccl_transport(world, config.grid, *device, {.peers_come = config.peer_timeout}, config.nccl);
    own.group_gathers = config.nccl.grouped_gathers;
  } else {
    transport = execute::make_staged_transport(world, config.grid);
  }
  return std::make_shared<execute::DeviceTeam>(std::move(device), 1, config.grid, own, std::move(transport));
}

}  // namespace

int device_of(const comm::World& world) {
  return world.rank_on_node() % std::max(1, static_cast<int>(execute::report_devices().devices.size()));
}

// One number may mean different devices in different processes, so identities are compared.
Surroundings surroundings_of(comm::World& world) {
  const auto all = world.all_gather(execute::device_identity(device_of(world)));
  const std::set<std::uint64_t> devices(all.begin(), all.end());
  const Launched launched = !world.of_processes()   ? Launched::as_threads
                            : world.name() == "tcp" ? Launched::over_tcp
                                                    : Launched::by_mpi;
  return {launched, world.size(), static_cast<int>(devices.size())};
}

CommunicatorKind choose_communicator(const RunConfig& config, const Surroundings& surroundings) {
  check_communicator(config, surroundings.launched);
  const bool threads = surroundings.launched == Launched::as_threads;
  CommunicatorKind kind = config.communicator;
  if (kind == CommunicatorKind::automatic) {
    if (surroundings.ranks == 1) return CommunicatorKind::local;
    const auto sharing = threads ? CommunicatorKind::local : CommunicatorKind::staged;
    kind = surroundings.own_device_each() ? CommunicatorKind::nccl : sharing;
  }
  if (kind == CommunicatorKind::nccl && !surroundings.own_device_each()) {
    const int devices = surroundings.devices;
    const std::string found = fmt::format("communicator = nccl with {} ranks and {} GPU{}", surroundings.ranks, devices,
                                          devices == 1 ? "" : "s");
    throw UserError(found, "a GPU for each rank: NCCL refuses two on one",
                    threads ? fmt::format("--ranks {}, or --communicator local", devices)
                            : fmt::format("{} processes (mpirun -np {}), or --communicator staged", devices, devices));
  }
  if (kind == CommunicatorKind::staged && config.cuda_graph) {
    throw UserError(fmt::format("cuda-graph with {} processes that share GPUs", surroundings.ranks),
                    "collectives that graphs can hold: ranks of one process, or a GPU for each",
                    fmt::format("leave --cuda-graph out, or --ranks {} without mpirun", surroundings.ranks));
  }
  return kind;
}

void expect_devices(comm::World& world, const RunConfig& config) {
  if (config.device == DeviceKind::cpu) return;
  execute::expect_cuda_device();
  choose_communicator(config, surroundings_of(world));
}

execute::MakeExecutor executor_of(const RunConfig& config, const std::shared_ptr<const execute::GemmTuning>& tuning) {
  if (config.device == DeviceKind::cpu) return nullptr;
  const execute::DeviceExecutorOptions options{.kept_steps = std::max<std::int64_t>(1, config.trace_steps),
                                               .trace_every = config.trace_every,
                                               .graphs = config.cuda_graph,
                                               .check_finite = config.check_nan};
  const execute::CudaSettings settings{tuning, config.attention_workspace, config.tf32, config.gpu_kernels,
                                       config.attention_gradient};
  return [config, options, settings](comm::World& world,
                                     const execute::State& state) -> std::unique_ptr<execute::Executor> {
    return execute::make_device_executor(team_of(world, config, options, settings), world, state);
  };
}

execute::BindCores binding_of(const RunConfig& config, const std::filesystem::path& sysfs) {
  if (config.bind == Binding::cores) {
    return [sysfs](comm::World& world) { return execute::bind_rank(world, execute::given_cores(), "", sysfs); };
  }
  if (config.bind == Binding::none || config.device == DeviceKind::cpu) return nullptr;
  return [config, sysfs](comm::World& world) {
    execute::expect_cuda_device();
    const bool shared = choose_communicator(config, surroundings_of(world)) == CommunicatorKind::local;
    const std::vector<std::string> addresses = execute::report_devices().addresses;
    const auto ordinal = static_cast<std::size_t>(shared ? 0 : device_of(world));
    const std::string address = ordinal < addresses.size() ? addresses[ordinal] : "";
    return execute::bind_rank(world, execute::place_of(sysfs, address).cores, address, sysfs);
  };
}

}  // namespace weft::train
