// Small TOML files as documents that know the line of every value.
#pragma once

#include <string>
#include <string_view>

#include "base/files/document.h"

namespace weft {

/// Whether `some_key` is accepted as another spelling of `some-key`.
enum class TomlKeys : std::uint8_t { as_written, with_dashes };

/// The largest text that read_toml() accepts, in bytes: far larger than any file written by hand.
inline constexpr std::size_t kLargestToml = 64 * 1024;

/// `name` is the text's name in messages; `fix` ends them. Dates and times are accepted as values, but no accessor
/// returns them. Throws UserError on a syntax error, a duplicate key and tables that nest more than 64 deep.
Document read_toml(std::string_view text, std::string name, std::string fix, TomlKeys keys = TomlKeys::as_written);

}  // namespace weft
