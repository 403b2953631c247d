#include "base/text/parse_number.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <string>
#include <system_error>
#include <type_traits>

#include "base/error.h"

namespace weft {

namespace {

constexpr const char* kGiveOne = "give a number in this range";

}  // namespace

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
