// Numbers and quantities with units, as people read and write them: bytes by powers of 1024, others by powers of 1000.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace weft {

/// With one decimal: 1536 → "1.5 KiB", 2.5e9 → "2.5 Gflop"; whole numbers below the first unit.
std::string format_bytes(double bytes);
std::string format_flops(double flops);

/// Bytes from a text that a person wrote: "37GiB", "1.5 TiB", "40GB", "4096". Units are B, KiB to TiB (powers of 1024)
/// and KB to TB (powers of 1000), in any case. `where` opens the messages. Throws UserError on anything else, on sizes
/// below 1 and above 1 EiB.
std::int64_t parse_bytes(std::string_view text, std::string_view where);
/// A text that parse_bytes() reads as this number: "37GiB", "1000B".
std::string exact_bytes(std::int64_t bytes);

/// With three digits: 1536 → "1.50 KiB", 13421772800 → "12.5 GiB", 512 → "512 B".
std::string human_bytes(std::uint64_t bytes);
/// 950 → "950", 61234 → "61.2K", 1234567 → "1.23M", 2.5e9 → "2.50G".
std::string human_count(double number);

/// With four digits and a prefix from p to E: (271.2e12, "flop/s") → "271.2 Tflop/s", (5.9e-6, "s") → "5.9 us".
std::string with_prefix(double value, std::string_view unit);

/// Nanoseconds: 1.5e6 → "1.50 ms"; seconds with three decimals, microseconds with one.
std::string format_time(double ns);
/// Seconds: 32 → "0:32", 3725 → "1:02:05", 100000 → "1d 03:46:40". Negative or not finite: "?".
std::string human_duration(double seconds);

/// The number that the whole text is, without a sign +; nullopt of other texts and of numbers that the type lacks.
template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

/// Of texts that people write, flags and keys of configurations, and the types std::int64_t, float and double. `where`
/// opens the messages. Throws UserError on anything but a number from `least` to `most`; −0 becomes 0.
template <class Number>
Number parse_number(std::string_view value, std::string_view where, double least, double most);

}  // namespace weft
