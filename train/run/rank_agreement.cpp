#include "train/run/rank_agreement.h"

#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "kernels/cpu/isa/kernel_choice.h"
#include "runtime/comm/agreement.h"
#include "train/config/config_table.h"
#include "train/run/run_files.h"

namespace weft::train {
namespace {

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
  for (const ConfigEntry& entry : config_table()) {
    if (entry.name == "run-dir" || entry.name == "threads") continue;
    facts.push_back({entry.name, entry.get(named)});
  }
  comm::expect_same(
      world, facts,
      {"was started with", "with", "one configuration for all ranks", "give every rank the same file and flags"});
}

void expect_same_model(comm::World& world, const RunConfig& config) {
  std::vector<comm::Fact> sizes;
  for (const ConfigEntry& entry : config_table()) {
    if (entry.name.starts_with(kModelPrefix)) sizes.push_back({entry.name, entry.get(config)});
  }
  comm::expect_same_facts(world, sizes);
}

}  // namespace weft::train
