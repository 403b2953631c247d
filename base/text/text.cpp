#include "base/text/text.h"

#include <fmt/format.h>

#include <span>

namespace weft {
namespace {

std::string scaled(double value, double base, std::span<const std::string_view> units) {
  std::size_t unit = 0;
  for (; value >= base && unit + 1 < units.size(); ++unit) value /= base;
  return unit == 0 ? fmt::format("{:.0f} {}", value, units[0]) : fmt::format("{:.1f} {}", value, units[unit]);
}

}  // namespace

std::string format_bytes(double bytes) {
  static constexpr std::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  return scaled(bytes, 1024, kUnits);
}

std::string format_flops(double flops) {
  static constexpr std::string_view kUnits[] = {"flop", "kflop", "Mflop", "Gflop", "Tflop", "Pflop"};
  return scaled(flops, 1000, kUnits);
}

std::string format_time(double ns) {
  if (ns >= 1e9) return fmt::format("{:.3f} s", ns * 1e-9);
  return ns >= 1e6 ? fmt::format("{:.2f} ms", ns * 1e-6) : fmt::format("{:.1f} us", ns * 1e-3);
}

std::string xml_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 && c != '\n' ? ' ' : c;
    }
  }
  return out;
}

}  // namespace weft
