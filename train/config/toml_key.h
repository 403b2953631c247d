// One key of a configuration's text, whatever else stands there: that of another version may have keys that this one
// doesn't know.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace weft {

/// The text that stands under `key` at the top of a TOML file. Null if there is none, or if the whole is no TOML.
std::optional<std::string> text_in_toml(std::string_view toml_text, std::string_view key);

}  // namespace weft
