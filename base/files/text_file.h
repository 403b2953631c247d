// Small files of text as a whole, from a path that somebody gave.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace weft {

/// It may be any file, or endless: at most one byte more than `most_bytes` is read. `what` is what messages call it:
/// "the configuration file". Throws UserError if it can't be read or is larger.
std::string read_text_file(const std::filesystem::path& path, std::string_view what, std::size_t most_bytes,
                           std::string_view expected, std::string_view fix);

/// Whether `name` names a file in a folder that is known: not the folder, and nothing elsewhere.
bool is_plain_file_name(std::string_view name);

}  // namespace weft
