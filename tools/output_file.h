// Files that a subcommand is to write, looked at before it does any work.
#pragma once

#include <filesystem>

namespace weft {

/// Throws UserError unless a file can be put there: its folder exists and may be written to, and it isn't a folder.
void expect_writable(const std::filesystem::path& output);

}  // namespace weft
