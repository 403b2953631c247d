// The two kinds of failure a user sees: input that can be fixed (exit code 2) and faults at run time (exit code 3).
#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace weft {

/// Bad input, refused before anything runs. `fix` names what to type or change. Exit code 2.
class UserError : public std::runtime_error {
 public:
  /// The message reads "found; expected …\n  fix: …"; empty parts are left out. Parts may quote the content of a file:
  /// they are made printable (base/printable.h), and a part of more than 2000 bytes is cut in the middle.
  UserError(std::string_view found, std::string_view expected, std::string_view fix);
};

/// A failure at run time (a rank lost, a disk full); the message names its cause. Exit code 3.
class RuntimeFault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The first line of a message: of a UserError what was found and expected, without the fix. Never empty.
std::string first_line(std::string_view message);

/// The entry of `known` that a user most likely meant by `word` (least edit distance), or "" if none is near.
std::string nearest_name(std::string_view word, std::span<const std::string> known);

/// "a, b, c", for messages that list the accepted values.
std::string join(std::span<const std::string> items, std::string_view separator = ", ");

}  // namespace weft
