// Compressed bytes in the form of gzip, and bytes as text in base64.
#pragma once

#include <string>
#include <string_view>

namespace weft {

/// Equal input gives equal bytes under one version of zlib: no time, no name. Throws std::runtime_error without memory.
std::string gzip(std::string_view bytes);

/// RFC 4648, with padding.
std::string base64(std::string_view bytes);

}  // namespace weft
