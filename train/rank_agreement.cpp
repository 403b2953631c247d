#include "train/rank_agreement.h"

#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <cstring>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "train/config_table.h"
#include "train/run_files.h"

namespace weft {
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
    // The loader tells addresses as integers.
    const auto* begin = reinterpret_cast<const std::byte*>(object->dlpi_addr + segment.p_vaddr);  // NOLINT
    auto& id = *static_cast<std::string*>(result);
    if (id = build_id_in({begin, segment.p_memsz}); !id.empty()) break;
  }
  return 1;
}

/// Values of all ranks, each a text that ends in '\0'.
std::vector<std::vector<std::string>> gather(World& world, const std::vector<Setting>& settings) {
  std::string own;
  for (const Setting& setting : settings) own += setting.value + '\0';
  std::vector<std::vector<std::string>> all;
  for (const auto& bytes : world.all_gather_bytes(std::as_bytes(std::span(own)))) {
    std::vector<std::string>& values = all.emplace_back();
    const auto* at = reinterpret_cast<const char*>(bytes.data());
    for (const char* end = at + bytes.size(); at < end; at += values.back().size() + 1) values.emplace_back(at);
  }
  return all;
}

void expect_same(World& world, const std::vector<Setting>& settings, std::string_view started,
                 std::string_view expected, std::string_view fix) {
  const auto all = gather(world, settings);
  for (std::size_t i = 0; i < settings.size(); ++i) {
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
      if (all[rank].at(i) == all[0].at(i)) continue;
      throw UserError(fmt::format("rank {} {} {} = {}, rank 0 with {} = {}", rank, started, settings[i].key,
                                  all[rank][i], settings[i].key, all[0][i]),
                      expected, fix);
    }
  }
}

}  // namespace

std::string build_id() {
  std::string id;
  dl_iterate_phdr(visit_executable, &id);
  return id;
}

void expect_same_build(World& world) {
  std::vector<Setting> settings;
  for (const auto& [name, version] : library_versions()) settings.push_back({name, version, ""});
  settings.push_back({"build id", build_id(), ""});
  expect_same(world, settings, "runs a weft with", "the same weft on all ranks",
              "copy one build to every machine, and start that");
}

void expect_same_config(World& world, const RunConfig& config) {
  RunConfig named = config;
  load_named_model(named);
  std::vector<Setting> settings;
  for (const ConfigEntry& entry : config_table()) {
    if (entry.name == "run-dir" || entry.name == "threads") continue;
    settings.push_back({entry.name, entry.get(named), ""});
  }
  expect_same(world, settings, "was started with", "one configuration for all ranks",
              "give every rank the same file and flags");
}

}  // namespace weft
