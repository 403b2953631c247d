// A Chakra execution trace of one rank as tasks and edges of an open graph.
#pragma once

#include "inspect/import/chakra_file.h"
#include "inspect/import/recovered_step.h"

namespace weft::inspect {

/// Dependencies of the file are edges as they stand. Between work of a device on one stream, of which converters are
/// known to drop the edges (mlcommons/chakra issue 215), the order of begins adds the predecessor; it needs the
/// attribute "stream" and times. A dependency on a node of the host that was still running is a launch. Throws
/// UserError on a node that is missing or named twice, and on a cycle.
RecoveredStep chakra_step(const ChakraFile& file, TraceChannels& channels);

}  // namespace weft::inspect
