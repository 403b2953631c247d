#include "base/units.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <iterator>
#include <span>
#include <string_view>
#include <system_error>
#include <type_traits>

#include "base/error.h"

namespace weft {
namespace {

constexpr std::string_view kBytes[] = {" B", " KiB", " MiB", " GiB", " TiB"};
constexpr std::string_view kFlops[] = {" flop", " kflop", " Mflop", " Gflop", " Tflop", " Pflop"};
constexpr std::string_view kCounts[] = {"", "K", "M", "G", "T"};

struct Scaled {
  double value;
  std::size_t unit;
};

/// `value` in the first of `units` in which it is less than `most`, or in the last.
Scaled scale(double value, double base, double most, std::size_t units) {
  std::size_t unit = 0;
  for (; std::fabs(value) >= most && unit + 1 < units; ++unit) value /= base;
  return {value, unit};
}

std::string with_a_decimal(double value, double base, std::span<const std::string_view> units) {
  const Scaled in = scale(value, base, base, units.size());
  return fmt::format("{:.{}f}{}", in.value, in.unit == 0 ? 0 : 1, units[in.unit]);
}

std::string with_three_digits(double value, double base, std::span<const std::string_view> units) {
  const Scaled in = scale(value, base, base - 0.5, units.size());  // 999.5 would round up to four digits
  const double size = std::fabs(in.value);
  const bool whole = in.unit == 0 && in.value == std::floor(in.value);
  return fmt::format("{:.{}f}{}", in.value, whole ? 0 : size < 9.995 ? 2 : size < 99.95 ? 1 : 0, units[in.unit]);
}

constexpr const char* kGiveOne = "give a number in this range";

}  // namespace

std::string format_bytes(double bytes) {
  return with_a_decimal(bytes, 1024, kBytes);
}

std::string format_flops(double flops) {
  return with_a_decimal(flops, 1000, kFlops);
}

std::int64_t parse_bytes(std::string_view text, std::string_view where) {
  const auto refuse = [&] {
    throw UserError(fmt::format("{} = \"{}\" is not a size", where, text), "a number with a unit, up to 1 EiB",
                    "write it as 37GiB, 512MiB or 40GB");
  };
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) refuse();
  std::string unit;
  for (const char c : text.substr(static_cast<std::size_t>(end - text.data()))) {
    if (c != ' ') unit += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  double factor = 1;
  if (!unit.empty() && unit != "B") {
    constexpr std::string_view kPrefixes = "KMGT";
    const std::size_t power = kPrefixes.find(unit[0]);
    const std::string_view rest = std::string_view(unit).substr(1);
    if (power == std::string_view::npos || (rest != "IB" && rest != "B")) refuse();
    factor = std::pow(rest == "IB" ? 1024.0 : 1000.0, static_cast<double>(power + 1));
  }
  const double bytes = std::round(number * factor);
  if (!(bytes >= 1 && bytes <= 0x1p60)) refuse();
  return static_cast<std::int64_t>(bytes);
}

std::string exact_bytes(std::int64_t bytes) {
  std::size_t unit = 0;
  while (unit + 1 < std::size(kBytes) && bytes % 1024 == 0 && bytes > 0) bytes /= 1024, ++unit;
  return fmt::format("{}{}", bytes, kBytes[unit].substr(1));
}

std::string human_bytes(std::uint64_t bytes) {
  return with_three_digits(static_cast<double>(bytes), 1024, kBytes);
}

std::string human_count(double number) {
  return with_three_digits(number, 1000, kCounts);
}

std::string with_prefix(double value, std::string_view unit) {
  constexpr std::array<std::string_view, 11> kPrefixes = {"p", "n", "u", "m", "", "k", "M", "G", "T", "P", "E"};
  constexpr std::size_t kOne = 4;
  std::size_t at = kOne;
  for (; value != 0 && std::abs(value) < 1 && at > 0; --at) value *= 1000;
  for (; std::abs(value) >= 1000 && at + 1 < kPrefixes.size(); ++at) value /= 1000;
  return fmt::format("{:.4g} {}{}", value, kPrefixes.at(at), unit);
}

std::string format_time(double ns) {
  if (ns >= 1e9) return fmt::format("{:.3f} s", ns * 1e-9);
  return ns >= 1e6 ? fmt::format("{:.2f} ms", ns * 1e-6) : fmt::format("{:.1f} us", ns * 1e-3);
}

std::string human_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e12) return "?";
  const auto total = std::llround(seconds);
  const auto days = total / 86400, hours = total / 3600 % 24, minutes = total / 60 % 60, rest = total % 60;
  if (days > 0) return fmt::format("{}d {:02}:{:02}:{:02}", days, hours, minutes, rest);
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, rest);
  return fmt::format("{}:{:02}", minutes, rest);
}

template <class Number>
Number parse_number(std::string_view value, std::string_view where, double least, double most) {
  const char* const type = std::is_integral_v<Number> ? "an integer" : "a number";
  const std::string range = fmt::format("{} from {} to {}", type, least, most);
  Number number{};
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error == std::errc::invalid_argument || end != value.data() + value.size()) {
    throw UserError(fmt::format("{} = \"{}\" is not {}", where, value, type), range, kGiveOne);
  }
  // In the field's own type, so that the bounds themselves are accepted; written so that NaN fails too.
  const bool inside = number >= static_cast<Number>(least) && number <= static_cast<Number>(most);
  if (error == std::errc::result_out_of_range || !inside) {
    throw UserError(fmt::format("{} = {} is out of range", where, value), range, kGiveOne);
  }
  return number + Number{};  // −0 becomes 0: TOML reads the -0 of a dump as an integer, without its sign
}

template std::int64_t parse_number(std::string_view, std::string_view, double, double);
template float parse_number(std::string_view, std::string_view, double, double);
template double parse_number(std::string_view, std::string_view, double, double);

}  // namespace weft
