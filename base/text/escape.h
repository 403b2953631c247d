// Text made part of markup and of scripts, whatever it holds.
#pragma once

#include <string>
#include <string_view>

namespace weft {

/// For SVG, HTML and Graphviz's HTML-like labels: & < > " become entities, control characters spaces.
std::string xml_escaped(std::string_view text);

/// JSON that means the same within a <script>: no `<`, which could end it.
std::string script_escaped(std::string_view json);

}  // namespace weft
