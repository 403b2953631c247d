// Numbers from texts.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace weft {

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
