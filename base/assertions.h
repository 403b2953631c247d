// Assertions of invariants: facts that code relies on and that no input can break. A build with -DWEFT_ASSERTIONS=ON
// checks them; in any other they cost nothing.
#pragma once

#include <source_location>
#include <string_view>

namespace weft {

#ifdef WEFT_ASSERTIONS
inline constexpr bool kAssertions = true;
#else
inline constexpr bool kAssertions = false;
#endif

/// Tells standard error which invariant is broken where, and aborts the process.
[[noreturn]] void report_broken(std::string_view invariant, const std::source_location& where);

/// Calls `holds`, which may be as slow as the code around it, in builds with assertions only.
///
///   assert_that("edges lead to later tasks", [&] { return edge.from < edge.to; });
template <class Holds>
void assert_that([[maybe_unused]] std::string_view invariant, [[maybe_unused]] const Holds& holds,
                 [[maybe_unused]] const std::source_location& where = std::source_location::current()) {
  if constexpr (kAssertions) {
    if (!holds()) report_broken(invariant, where);
  }
}

}  // namespace weft
