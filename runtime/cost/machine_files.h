// Machine files by name: those that come with Weft.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/cost/machine.h"

namespace weft::cost {

/// Where machine files are looked for: the installed share folder next to the program, then the source tree.
std::vector<std::filesystem::path> machine_folders();

/// A name without its ending ("perlmutter"), or a path ("my.toml", "clusters/ours.toml"). Throws UserError naming the
/// nearest machine, or what is wrong with the file.
Machine find_machine(const std::string& name_or_path, const std::vector<std::filesystem::path>& folders);

}  // namespace weft::cost
