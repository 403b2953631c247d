// Files NAME.graph.json: open graphs as text, packed with gzip or not (docs/graph-files.md).
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/files/durable_file.h"
#include "base/text/text_writer.h"
#include "graph/open_graph.h"

namespace weft::inspect {

/// The version that is written; others are refused.
inline constexpr int kGraphFileVersion = 1;

/// Whether a file's name says that it is an open graph: it ends in ".graph.json" or ".graph.json.gz".
bool is_graph_file(const std::filesystem::path& path);

/// Read as a stream, a task at a time, and checked (graph::check). Throws UserError with line and byte on a file that
/// breaks off, is of another version or another program's, or has a value that doesn't fit.
graph::OpenGraph read_graph_file(const std::filesystem::path& path);

/// `name` stands for the text in messages.
graph::OpenGraph parse_graph_file(std::string_view text, const std::string& name);

/// One channel, stream, tensor, task or edge a line; members with the struct's defaults are left out. Equal graphs give
/// equal bytes, and reading them gives an equal graph.
void write_graph(const graph::OpenGraph& graph, const TextSink& sink);

/// Durably, packed with gzip if the path ends in ".gz". Throws RuntimeFault (a full disk).
void write_graph_file(const std::filesystem::path& path, const graph::OpenGraph& graph, Named named = Named::by_weft);

}  // namespace weft::inspect
