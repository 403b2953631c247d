// `weft trace import`: recorded steps of other programs as an open graph.
#pragma once

#include "tools/command_line/command.h"

namespace weft::tools {

Command describe_trace_import();

}  // namespace weft::tools
