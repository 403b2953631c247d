// Messages of errors and what stands in them, for tests of refusals and of printed text.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>

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
inline ::testing::AssertionResult has_parts(const std::string& text, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts) {
    if (text.find(part) == std::string::npos) {
      return ::testing::AssertionFailure() << "no '" << part << "' in: \"" << text << '"';
    }
  }
  return ::testing::AssertionSuccess();
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
