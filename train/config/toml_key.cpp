#include "train/config/toml_key.h"

#include <toml++/toml.h>

namespace weft {

std::optional<std::string> text_in_toml(std::string_view toml_text, std::string_view key) {
  // Far above any configuration. It bounds the depth of tables, which toml++ takes down recursively.
  constexpr std::size_t kLargest = 64 * 1024;
  if (toml_text.size() > kLargest) return std::nullopt;
  try {
    return toml::parse(toml_text)[key].value_exact<std::string>();
  } catch (const toml::parse_error&) {
    return std::nullopt;
  }
}

}  // namespace weft
