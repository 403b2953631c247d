#include "train/run/launch_run.h"

#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "kernels/cpu/isa/kernel_choice.h"
#include "runtime/comm/agreement.h"
#include "runtime/comm/launch.h"
#include "runtime/comm/mpi.h"
#include "runtime/execute/cpu/shared_cores.h"
#include "train/config/config_table.h"
#include "train/run/run_files.h"
#include "train/run/run_inputs.h"
#include "train/run/run_token.h"

namespace weft::train {
namespace {

void check_thread_ranks(std::int64_t ranks) {
  constexpr std::int64_t kMost = 4096;
  if (ranks <= kMost) return;
  throw UserError(fmt::format("{} ranks as threads of one process", ranks), fmt::format("at most {}", kMost),
                  fmt::format("start them by mpirun -np {}; `weft simulate` and `weft search` need no ranks", ranks));
}

constexpr const char* kOrigin = "the chosen grid";  // of settings, in messages

/// Rank 0 chooses for all ranks. Collective over the world.
std::vector<Setting> choose_together(comm::World& world, const RunConfig& config, const ChooseGrid& choose) {
  std::string chosen;  // lines of a key, "=" and a value
  comm::act_together(world, [&] {
    if (world.rank() != 0) return;
    for (const Setting& each : choose(config, {world.size(), world.ranks_on_node()})) {
      chosen += each.key + '=' + each.value + '\n';
    }
  });
  std::istringstream lines(comm::text_of_rank_0(world, chosen));
  std::vector<Setting> settings;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t equals = line.find('=');
    settings.push_back({line.substr(0, equals), line.substr(equals + 1), kOrigin});
  }
  return settings;
}

constexpr std::size_t align_note(std::size_t size) {
  return (size + 3) / 4 * 4;
}

/// The build id in a segment of ELF notes, or "".
std::string build_id_in(std::span<const std::byte> notes) {
  while (notes.size() >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) header;
    std::memcpy(&header, notes.data(), sizeof header);
    const std::size_t name = sizeof header, content = name + align_note(header.n_namesz);
    const std::size_t end = content + align_note(header.n_descsz);
    if (end > notes.size()) break;
    if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == 4 && std::memcmp(&notes[name], "GNU", 4) == 0) {
      std::string text;
      for (const std::byte byte : notes.subspan(content, header.n_descsz)) {
        text += fmt::format("{:02x}", static_cast<unsigned>(byte));
      }
      return text;
    }
    notes = notes.subspan(end);
  }
  return "";
}

/// The first object that the loader lists is the executable.
int visit_executable(dl_phdr_info* object, std::size_t, void* result) {
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    // The loader gives addresses as integers.
    const auto* begin = reinterpret_cast<const std::byte*>(object->dlpi_addr + segment.p_vaddr);  // NOLINT
    auto& id = *static_cast<std::string*>(result);
    if (id = build_id_in({begin, segment.p_memsz}); !id.empty()) break;
  }
  return 1;
}

}  // namespace

int run_on_ranks(RunConfig config, const std::function<int(comm::World&, const ResolvedRun&)>& body,
                 const AdjustConfig& adjust, const ChooseGrid& choose) {
  const bool chooses = config.grid_auto && choose;
  const bool by_mpi = !config.launch && comm::launched_by_mpi();
  if (!config.launch && !by_mpi) {
    if (chooses) {
      const std::int64_t ranks = config.ranks > 0 ? config.ranks : config.grid.ranks();
      apply_settings(config, choose(config, {ranks, ranks}));
    }
    if (adjust) adjust(config, std::max(config.ranks, config.grid.ranks()));
    const ResolvedRun run = resolve(std::move(config), 0);
    check_thread_ranks(run.config.grid.ranks());
    check_communicator(run.config, Launched::as_threads);
    return comm::run_ranks(static_cast<int>(run.config.grid.ranks()),
                           [&](comm::World& world) { return body(world, run); });
  }
  const auto on_rank = [&](comm::World& world) {
    expect_same_build(world);
    expect_same_kernels(world, cpu::kernel_level());
    agree_on_resumed(world, config);
    expect_same_config(world, config);
    if (chooses) apply_settings(config, choose_together(world, config, choose));
    // Resolving knows the ranks, but not which of them share a machine.
    if (config.threads == 0) config.threads = execute::threads_for_all(world);
    ResolvedRun run;
    comm::act_together(world, [&] {  // a file or folder of the configuration may be missing on one machine
      if (adjust) adjust(config, world.size());
      run = resolve(std::move(config), world.size());
      check_communicator(run.config, by_mpi ? Launched::by_mpi : Launched::over_tcp);
    });
    expect_same_model(world, run.config);
    run.config.run_dir = comm::text_of_rank_0(world, run.config.run_dir);
    return body(world, run);
  };
  if (by_mpi) return comm::run_mpi(on_rank);
  return comm::run_tcp(comm::TcpLaunch(*config.launch), tcp_settings(config), on_rank);
}

comm::TcpSettings tcp_settings(const RunConfig& config) {
  const std::string own = config.launch ? config.launch->token_file : "";
  return {read_token(config.token_file, own), config.network == Network::any, config.peer_timeout};
}

std::string build_id() {
  std::string id;
  dl_iterate_phdr(visit_executable, &id);
  return id;
}

void expect_same_build(comm::World& world) {
  std::vector<comm::Fact> facts;
  for (const auto& [name, version] : library_versions()) {
    if (name != kKernelsVersion) facts.push_back({name, version});
  }
  facts.push_back({"build id", build_id()});
  comm::expect_same(
      world, facts,
      {"runs a weft with", "with", "the same weft on all ranks", "copy one build to every machine, and start that"});
}

void expect_same_kernels(comm::World& world, std::string_view level) {
  comm::expect_same(world, {{std::string(kKernelsVersion), std::string(level)}},
                    {"has a CPU for", "one for", "one level of instructions for all ranks, which decides the bits",
                     "start all ranks with the lowest of their levels, as in --isa v3"});
}

void expect_same_config(comm::World& world, const RunConfig& config) {
  RunConfig named = config;
  load_named_model(named);
  std::vector<comm::Fact> facts;
  for (const ConfigKey& entry : config_keys()) {
    if (entry.name == "run-dir" || entry.name == "threads" || entry.name == "token-file") continue;
    facts.push_back({entry.name, entry.get(named)});
  }
  comm::expect_same(
      world, facts,
      {"was started with", "with", "one configuration for all ranks", "give every rank the same file and flags"});
}

void expect_same_model(comm::World& world, const RunConfig& config) {
  std::vector<comm::Fact> sizes;
  for (const ConfigKey& entry : config_keys()) {
    if (entry.name.starts_with(kModelPrefix)) sizes.push_back({entry.name, entry.get(config)});
  }
  comm::expect_same_facts(world, sizes);
}

}  // namespace weft::train
