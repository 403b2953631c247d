// Text of any content in markup and scripts, and bytes as text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace weft {

/// For SVG, HTML and Graphviz's HTML-like labels: & < > " become entities, control characters become spaces.
std::string xml_escaped(std::string_view text);

/// Equivalent JSON for a <script>: without `<`, which could end the script.
std::string script_escaped(std::string_view json);

/// Base64 by RFC 4648, with padding.
std::string base64(std::string_view bytes);

/// The bytes of such a text; nothing if it has another form.
std::optional<std::string> base64_decoded(std::string_view text);

}  // namespace weft
