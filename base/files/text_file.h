// Small text files, read whole from a person's path.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace weft {

/// The path may name anything, even an endless device: at most `most_bytes` + 1 bytes are read. `what` is the file's
/// name in messages: "the configuration file". Throws UserError if the file can't be read or is larger.
std::string read_text_file(const std::filesystem::path& path, std::string_view what, std::size_t most_bytes,
                           std::string_view expected, std::string_view fix);

/// Whether `name` names a file directly in a known folder: neither the folder itself nor anything elsewhere.
bool is_plain_file_name(std::string_view name);

}  // namespace weft
