// A machine as the text of a machine file.
#pragma once

#include <string>

#include "runtime/cost/machine.h"

namespace weft::cost {

/// TOML that parse_machine() reads as the same machine, its sources and statuses included. Measured times are rounded
/// to four digits.
std::string machine_toml(const Machine& machine);

}  // namespace weft::cost
