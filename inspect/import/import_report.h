// What an import found, as text for people and as JSON: edges by source, what was guessed, the replayed step against
// the recorded one, and communication.
#pragma once

#include <cstddef>
#include <optional>

#include "base/printable.h"
#include "base/text/json_object.h"
#include "inspect/import/trace_import.h"

namespace weft::inspect {

/// For a terminal of `width` columns.
StyledText styled_import(const ImportedTrace& imported, std::optional<std::size_t> width);
JsonObject import_json(const ImportedTrace& imported);

}  // namespace weft::inspect
