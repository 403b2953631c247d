#include "train/rank_agreement.h"

#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
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

std::vector<std::string> gather(World& world, const std::string& own) {
  std::vector<std::string> all;
  for (const auto& bytes : world.all_gather_bytes(std::as_bytes(std::span(own)))) {
    all.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return all;
}

/// How a difference is told: "rank 1 `one` lr = 2, rank 0 `other` lr = 1".
struct Wording {
  std::string_view one, other, expected, fix;
};

void expect_same(World& world, const std::vector<Fact>& facts, const Wording& wording) {
  std::string own;
  for (const Fact& fact : facts) own += fact.value + '\0';
  std::vector<std::vector<std::string>> all;
  for (const std::string& text : gather(world, own)) {
    std::vector<std::string>& values = all.emplace_back();
    for (std::size_t at = 0; at < text.size(); at += values.back().size() + 1) values.emplace_back(text.c_str() + at);
  }
  for (std::size_t i = 0; i < facts.size(); ++i) {
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
      if (all[rank].at(i) == all[0].at(i)) continue;
      throw UserError(fmt::format("rank {} {} {} = {}, rank 0 {} {} = {}", rank, wording.one, facts[i].name,
                                  all[rank][i], wording.other, facts[i].name, all[0][i]),
                      wording.expected, wording.fix);
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
  std::vector<Fact> facts;
  for (const auto& [name, version] : library_versions()) facts.push_back({name, version});
  facts.push_back({"build id", build_id()});
  expect_same(
      world, facts,
      {"runs a weft with", "with", "the same weft on all ranks", "copy one build to every machine, and start that"});
}

void expect_same_config(World& world, const RunConfig& config) {
  RunConfig named = config;
  load_named_model(named);
  std::vector<Fact> facts;
  for (const ConfigEntry& entry : config_table()) {
    if (entry.name == "run-dir" || entry.name == "threads") continue;
    facts.push_back({entry.name, entry.get(named)});
  }
  expect_same(
      world, facts,
      {"was started with", "with", "one configuration for all ranks", "give every rank the same file and flags"});
}

void expect_same_model(World& world, const RunConfig& config) {
  std::vector<Fact> sizes;
  for (const ConfigEntry& entry : config_table()) {
    if (entry.name.starts_with(kModelPrefix)) sizes.push_back({entry.name, entry.get(config)});
  }
  expect_same_facts(world, sizes);
}

void act_together(World& world, const std::function<void()>& act) {
  std::string refusal;
  try {
    act();
  } catch (const UserError& error) {
    refusal = error.what();
  }
  const std::vector<std::string> all = gather(world, refusal);
  const auto first = std::ranges::find_if(all, [](const std::string& text) { return !text.empty(); });
  if (first == all.end()) return;
  const bool alike = std::ranges::all_of(all, [&](const std::string& text) { return text == *first; });
  throw UserError(alike ? *first : fmt::format("rank {}: {}", first - all.begin(), *first), "", "");
}

void expect_same_facts(World& world, const std::vector<Fact>& facts) {
  expect_same(world, facts,
              {"has", "has", "the same on all ranks",
               "let all of them see the same files, on a shared disk or as equal copies"});
}

std::string text_of_rank_0(World& world, const std::string& text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  std::vector<std::byte> bytes(data, data + text.size());
  world.broadcast(bytes, 0);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace weft
