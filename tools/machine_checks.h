// The equipment of this machine for training: processor features, cores, memory, libraries and GPU software, each with
// what it enables in this version. Behind `weft doctor`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/packed_unit.h"

namespace weft::tools {

enum class CheckState : std::uint8_t { ok, absent, failed };  // absent: not needed; failed: Weft needs it

std::string_view to_string(CheckState state);

struct MachineCheck {
  std::string section, name;
  std::string value;  // what was found: a version, a number with its unit, "yes" or "no"
  CheckState state = CheckState::ok;
  std::string note;  // what it enables or how to get it; may be empty
};

/// How bf16 is multiplied by a CPU with this widest unit whose pairs, if it has them, are so many times as fast as
/// fp32.
MachineCheck check_bf16(PackedUnit widest, std::optional<double> pairs_gain);

/// Looks at everything, in the order of the report. Starts a child process that initialises MPI, so that an MPI that
/// ends its process on errors is reported like anything else.
std::vector<MachineCheck> check_machine();

}  // namespace weft::tools
