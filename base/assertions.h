// Assertions of invariants: facts that code relies on and that no input can break. A build with -DWEFT_ASSERTIONS=ON
// checks them; in any other they cost nothing.
#pragma once

#include <string_view>

namespace weft {

#ifdef WEFT_ASSERTIONS
inline constexpr bool kAssertions = true;
#else
inline constexpr bool kAssertions = false;
#endif

/// Where a call stands. As std::source_location, which clang 14 lacks.
struct CodePlace {
  const char *file, *function;
  int line;

  static constexpr CodePlace current(const char* file = __builtin_FILE(), const char* function = __builtin_FUNCTION(),
                                     int line = __builtin_LINE()) {
    return {file, function, line};
  }
};

/// Tells standard error which invariant is broken where, and aborts the process.
[[noreturn]] void report_broken(std::string_view invariant, const CodePlace& where);

/// Calls `holds`, which may be as slow as the code around it, in builds with assertions only.
///
///   assert_that("edges lead to later tasks", [&] { return edge.from < edge.to; });
template <class Holds>
void assert_that([[maybe_unused]] std::string_view invariant, [[maybe_unused]] const Holds& holds,
                 [[maybe_unused]] const CodePlace& where = CodePlace::current()) {
  if constexpr (kAssertions) {
    if (!holds()) report_broken(invariant, where);
  }
}

}  // namespace weft
