// Messages of errors and what stands in them, for tests of refusals and of printed text.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>

#include "base/error.h"

namespace weft::testing {

/// The message of the Error that `function` throws; "" if it throws none.
template <class Error, class Function>
std::string message_of(Function function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// Whether `text` holds every one of `parts`; shows the missing parts.
template <class Parts = std::initializer_list<std::string_view>>
::testing::AssertionResult has_parts(std::string_view text, const Parts& parts) {
  for (const std::string_view part : parts) {
    if (text.find(part) == std::string_view::npos) {
      return ::testing::AssertionFailure() << "no '" << part << "' in: \"" << text << '"';
    }
  }
  return ::testing::AssertionSuccess();
}

/// Whether `function` throws an Error whose message holds `parts`.
template <class Error = UserError, class Function, class Parts = std::initializer_list<std::string_view>>
::testing::AssertionResult refuses(Function function, const Parts& parts) {
  const std::string message = message_of<Error>(function);
  return message.empty() ? ::testing::AssertionFailure() << "accepted" : has_parts(message, parts);
}

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// How often `part` stands in `text`, without overlaps.
inline std::size_t count(std::string_view text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

}  // namespace weft::testing

namespace weft {
// For tests of every room.
using testing::has_parts;
using testing::refuses;
}  // namespace weft
