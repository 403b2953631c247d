#include "train/run/log_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/units.h"
#include "runtime/comm/mpi.h"
#include "runtime/comm/of_ranks.h"
#include "runtime/execute/device/devices.h"
#include "train/config/config_table.h"
#include "train/run/run_files.h"

namespace weft::train {
namespace {

std::string bytes_text(std::int64_t bytes) {
  return human_bytes(static_cast<std::uint64_t>(bytes));
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

/// "loom (ranks 0, 1), spindle (ranks 2, 3)".
std::string hosts_text(comm::World& world) {
  std::map<std::string, std::vector<std::string>> ranks;
  int rank = 0;
  for (const std::string& host : comm::of_ranks(world, host_name())) ranks[host].push_back(fmt::format("{}", rank++));
  std::vector<std::string> hosts;
  for (const auto& [host, numbers] : ranks) {
    hosts.push_back(fmt::format("{} (rank{} {})", host, numbers.size() == 1 ? "" : "s", join(numbers)));
  }
  return join(hosts);
}

void log_libraries(const RunConfig& config, bool mpi) {
  std::vector<std::string> libraries;
  for (const auto& [name, version] : library_versions()) {
    if (name != "weft") libraries.push_back(fmt::format("{} {}", name, version));  // logged earlier, with its commit
  }
  if (mpi) libraries.push_back(comm::mpi_version());
  if (config.device == DeviceKind::cuda) {
    for (const std::string& library : execute::report_devices().libraries) libraries.push_back(library);
  }
  Log(LogTopic::run, 0).info("libraries: {}", join(libraries));
}

void log_configuration(const RunConfig& config) {
  std::vector<std::string> keys;
  for (const ConfigEntry& entry : config_table()) keys.push_back(fmt::format("{} = {}", entry.name, entry.get(config)));
  Log(LogTopic::run, 0).info("configuration: {}", join(keys));
}

void log_tuning(const RunDescription& run) {
  const Log log(LogTopic::tuning, 0);
  if (run.tuned != nullptr) {
    log.info("{} matrix products by a table with fingerprint {:016x}, measured on {} with {}, {} threads",
             run.tuned->table.choices().size(), run.tuned->table.fingerprint(), run.tuned->machine.isa,
             run.tuned->machine.library, run.tuned->threads);
  } else {
    log.info("matrix products by the default methods");
  }
  if (run.bf16) log.info("bf16 is multiplied by {}", to_string(*run.bf16));
}

void log_plans(const RunDescription& run) {
  const Log log(LogTopic::plan, 0);
  log.info("policy {}; all plans made and checked in {:.0f} ms", run.config.policy, run.planning_ms);
  if (const std::string rewrites = plan::rewrites_for_memory(run.program.plan("train")); !rewrites.empty())
    log.info("train: rewrites chosen to fit the memory: {}", rewrites);
  const std::array<TextTable, 3> tables = tables_of(run);
  constexpr std::array topics = {LogTopic::plan, LogTopic::memory, LogTopic::comm};
  for (std::size_t i = 0; i < tables.size(); ++i) {
    if (tables[i].rows.empty()) continue;
    std::istringstream lines(table_text(tables[i]).plain());
    for (std::string line; std::getline(lines, line);) Log(topics[i], 0).info("{}", line);
  }
}

void log_memory(const execute::Program& program, int rank) {
  const execute::State& state = program.state();
  std::vector<std::string> roles;
  for (const graph::Role role : {graph::Role::parameter, graph::Role::optimizer_state, graph::Role::cache,
                                 graph::Role::input, graph::Role::scalar}) {
    if (state.bytes_of(role) > 0)
      roles.push_back(fmt::format("{} {}", graph::to_string(role), bytes_text(state.bytes_of(role))));
  }
  const Log log(LogTopic::memory, rank);
  log.info("state {} ({}), scratch arena {}", bytes_text(program.state_bytes()), join(roles),
           bytes_text(program.scratch_bytes()));
  if (program.device_bytes() > 0) log.info("{} on the device", bytes_text(program.device_bytes()));
}

}  // namespace

void log_run(comm::World& world, const RunDescription& run) {
  const std::string hosts = hosts_text(world);
  if (world.rank() == 0) {
    log_libraries(run.config, run.world == "mpi");
    log_configuration(run.config);
    Log(LogTopic::run, 0).info("data: {}", run.source.description());
    for (const std::string& note : notes_of(run)) Log(LogTopic::run, 0).info("note: {}", note);
    Log(LogTopic::comm, 0)
        .info("communicator {}, {} ranks ({}) as {}, on {}", run.devices.communicator, world.size(),
              graph::to_string(run.config.grid), run.world == "mpi" ? "MPI processes" : "threads", hosts);
    if (!run.devices.devices.empty()) Log(LogTopic::comm, 0).info("devices: {}", to_string(run.devices));
    log_tuning(run);
    log_plans(run);
  }
  log_memory(run.program, world.rank());
}

}  // namespace weft::train
