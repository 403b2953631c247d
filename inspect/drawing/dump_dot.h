// A drawing as Graphviz DOT.
#pragma once

#include <string>

#include "inspect/drawing/drawing.h"

namespace weft::inspect {

/// Equal drawings give equal text. The first line is the command that renders `file_name`. Sections are clusters; `id`
/// of a node is the name of its (first) task, `class` its kind, its tooltip names shapes, bytes and flops, and a
/// collective's its group. Lines: solid = data (read after write), dashed = the bytes are written again (write after
/// read or write, memory reuse), dotted = order only (a policy's, issued-before).
std::string dump_dot(const Drawing& drawing, const std::string& file_name = "graph.dot");

}  // namespace weft::inspect
