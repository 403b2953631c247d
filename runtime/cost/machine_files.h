// Lookup of machine files by name, for the files that come with Weft.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/cost/machine.h"

namespace weft::cost {

/// Folders with machine files: the installed share folder next to the program, then the source tree.
std::vector<std::filesystem::path> machine_folders();

/// The machine of a name without its ending ("perlmutter") or of a path ("my.toml", "clusters/ours.toml"). Throws
/// UserError naming the nearest machine, or the error in the file.
Machine find_machine(const std::string& name_or_path, const std::vector<std::filesystem::path>& folders);

}  // namespace weft::cost
