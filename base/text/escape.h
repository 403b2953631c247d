// Escapes for text of any content in markup and scripts.
#pragma once

#include <string>
#include <string_view>

namespace weft {

/// For SVG, HTML and Graphviz's HTML-like labels: & < > " become entities, control characters become spaces.
std::string xml_escaped(std::string_view text);

/// Equivalent JSON for a <script>: without `<`, which could end the script.
std::string script_escaped(std::string_view json);

}  // namespace weft
