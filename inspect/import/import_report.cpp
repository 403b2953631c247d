// What an import found, as text and JSON: the verdict first, then each rank's times, the length's parts, and edges.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/text/text_table.h"
#include "inspect/import/trace_import.h"

namespace weft::inspect {
namespace {

double import_ms(double ns) {
  return ns * 1e-6;
}

TextTable times_table(const ImportedTrace& imported) {
  TextTable table;
  table.columns = {{.head = "rank"},
                   {.head = "step"},
                   {.head = "marked ms", .rank = 3},
                   {.head = "recorded ms"},
                   {.head = "replayed ms"},
                   {.head = "off by"},
                   {.head = "computing", .rank = 2},
                   {.head = "communicating", .rank = 2},
                   {.head = "exposed"},
                   {.head = "overlap"}};
  for (const ImportedRank& rank : imported.ranks) {
    table.rows.push_back({std::to_string(rank.rank), rank.step ? std::to_string(*rank.step) : "-",
                          rank.marked_ns ? fmt::format("{:.3f}", import_ms(static_cast<double>(*rank.marked_ns))) : "-",
                          rank.recorded_ns == 0 ? "-" : fmt::format("{:.3f}", import_ms(rank.recorded_ns)),
                          fmt::format("{:.3f}", import_ms(rank.replayed_ns)),
                          rank.recorded_ns == 0 ? "-" : fmt::format("{:+.2f} %", rank.error_percent()),
                          fmt::format("{:.3f}", import_ms(static_cast<double>(rank.overlap.computing))),
                          fmt::format("{:.3f}", import_ms(static_cast<double>(rank.overlap.communicating))),
                          fmt::format("{:.3f}", import_ms(static_cast<double>(rank.overlap.exposed()))),
                          fmt::format("{:.1f} %", rank.overlap.percent())});
  }
  return table;
}

/// "waiting for rank 1 12.3 %": for each rank that others waited for.
std::vector<std::pair<std::string, double>> waits_of(const ImportedTrace& imported, const ReplayedPath& path) {
  std::vector<std::pair<std::string, double>> waits;
  for (std::size_t i = 0; i < path.waiting_by_class.size(); ++i) {
    waits.emplace_back(fmt::format("waiting for rank {}", imported.ranks[i].rank), path.waiting_by_class[i]);
  }
  return waits;
}

std::string path_text(const ImportedTrace& imported, const ImportedRank& rank) {
  const ReplayedPath& path = rank.path;
  std::vector<std::pair<std::string, double>> parts = waits_of(imported, path);
  parts.insert(parts.end(), {{"host", path.host},
                             {"computing", path.computing},
                             {"communicating", path.communicating},
                             {"copying", path.copying}});
  std::ranges::stable_sort(parts, [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (const auto& [name, ns] : parts) {
    const double percent = rank.replayed_ns == 0 ? 0 : 100 * ns / rank.replayed_ns;
    if (percent >= 0.05) text += fmt::format("{}{} {:.1f} %", text.empty() ? "" : ", ", name, percent);
  }
  return text.empty() ? "nothing" : text;
}

TextTable edges_table(const ImportedTrace& imported) {
  TextTable table;
  table.columns = {{.head = "rank"}, {.head = "tasks"}, {.head = "of the host"}};
  for (std::size_t source = 0; source < kEdgeSources; ++source) {
    table.columns.push_back({.head = std::string(to_string(static_cast<graph::EdgeSource>(source)))});
  }
  for (const ImportedRank& rank : imported.ranks) {
    std::vector<std::string> row = {std::to_string(rank.rank), std::to_string(rank.device_tasks + rank.host_tasks),
                                    std::to_string(rank.host_tasks)};
    for (const std::int64_t count : rank.edges) row.push_back(std::to_string(count));
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace

StyledText styled_import(const ImportedTrace& imported, std::optional<std::size_t> width) {
  StyledText text(fmt::format("{} trace of {} of {} ranks, {} process groups\n\n", imported.graph.source,
                              imported.ranks.size(), imported.graph.world, imported.graph.channels.size()));
  text.add("verdict\n", Emphasis::heading);
  for (const std::string& line : lines_of(imported.verdict)) text.add(line + "\n");
  text.add("\nthe step, replayed from durations and edges alone\n", Emphasis::heading);
  text.add(table_text(times_table(imported), width));
  text.add("\nwhat the replayed step's length is made of\n", Emphasis::heading);
  for (const ImportedRank& rank : imported.ranks)
    text.add(fmt::format("rank {}: {}\n", rank.rank, path_text(imported, rank)));
  text.add("\nedges by source, from sure to doubtful\n", Emphasis::heading);
  text.add(table_text(edges_table(imported), width));
  if (imported.matched + imported.unmatched > 0) {
    text.add(fmt::format("\n{} collectives and transfers were matched over ranks, {} were not\n", imported.matched,
                         imported.unmatched));
  }
  if (imported.graph.notes.empty()) return text;
  text.add("\nnotes\n", Emphasis::heading);
  for (const std::string& note : imported.graph.notes) text.add(fmt::format("- {}\n", note));
  return text;
}

JsonObject import_json(const ImportedTrace& imported) {
  JsonArray ranks;
  for (const ImportedRank& rank : imported.ranks) {
    JsonObject edges, path;
    for (std::size_t source = 0; source < kEdgeSources; ++source) {
      edges.add(to_string(static_cast<graph::EdgeSource>(source)), rank.edges[source]);
    }
    path.add("host_ns", rank.path.host)
        .add("computing_ns", rank.path.computing)
        .add("communicating_ns", rank.path.communicating)
        .add("copying_ns", rank.path.copying)
        .add("waiting_for_ranks_ns", rank.path.waiting_for_ranks);
    JsonObject waits;
    for (const auto& [name, ns] : waits_of(imported, rank.path)) waits.add(name, ns);
    path.add("waits_ns", waits);
    ranks.add(JsonObject()
                  .add("rank", rank.rank)
                  .add("file", rank.file)
                  .add("step", rank.step ? JsonValue(*rank.step) : nullptr)
                  .add("events", rank.events)
                  .add("device_tasks", rank.device_tasks)
                  .add("host_tasks", rank.host_tasks)
                  .add("marked_ns", rank.marked_ns ? JsonValue(*rank.marked_ns) : nullptr)
                  .add("recorded_ns", rank.recorded_ns)
                  .add("replayed_ns", rank.replayed_ns)
                  .add("error_percent", rank.error_percent())
                  .add("replayed_path", path)
                  .add("computing_ns", rank.overlap.computing)
                  .add("communicating_ns", rank.overlap.communicating)
                  .add("exposed_ns", rank.overlap.exposed())
                  .add("overlap_percent", rank.overlap.percent())
                  .add("edges", edges));
  }
  return JsonObject()
      .add("source", imported.graph.source)
      .add("world", imported.graph.world)
      .add("absent_ranks", imported.absent_ranks)
      .add("groups", imported.graph.channels.size())
      .add("matched_collectives", imported.matched)
      .add("unmatched_collectives", imported.unmatched)
      .add("verdict", verdict_json(imported.verdict))
      .add("ranks", ranks)
      .add("notes", imported.graph.notes);
}

}  // namespace weft::inspect
