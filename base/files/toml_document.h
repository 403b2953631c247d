// Small files of TOML as documents, which know the line of every value.
#pragma once

#include <string>
#include <string_view>

#include "base/files/document.h"

namespace weft {

/// Whether `some_key` is another way to write `some-key`.
enum class TomlKeys : std::uint8_t { as_written, with_dashes };

/// The largest text that read_toml() takes: far above what anybody writes by hand.
inline constexpr std::size_t kLargestToml = 64 * 1024;

/// `name` stands for the text in messages, `fix` ends them. Dates and times are values that nothing asks for. Throws
/// UserError on a syntax error, a key given twice and tables that nest more than 64 deep.
Document read_toml(std::string_view text, std::string name, std::string fix, TomlKeys keys = TomlKeys::as_written);

}  // namespace weft
