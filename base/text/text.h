// Text for people and pages: quantities with units, and characters that XML reserves.
#pragma once

#include <string>
#include <string_view>

namespace weft {

/// 1536 → "1.5 KiB" (powers of 1024); below 1 KiB whole bytes.
std::string format_bytes(double bytes);

/// 2.5e9 → "2.5 Gflop" (powers of 1000).
std::string format_flops(double flops);

/// Nanoseconds: 1.5e6 → "1.50 ms"; seconds with three digits, microseconds with one.
std::string format_time(double ns);

/// For SVG, HTML and Graphviz's HTML-like labels: & < > " become entities, control characters spaces.
std::string xml_escaped(std::string_view text);

}  // namespace weft
