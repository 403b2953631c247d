// Bytes encoded as text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace weft {

/// RFC 4648, with padding.
std::string base64(std::string_view bytes);

/// The bytes of such a text; nothing if it has another form.
std::optional<std::string> base64_decoded(std::string_view text);

}  // namespace weft
