// The shared libraries and Python files that may be loaded as policies. Loading one runs its code, so a person must
// have named it.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>

namespace weft::policy {

/// The file of code that a policy's text names: "./mine.so" of "./mine.so:lookahead=3", "mine.py" of "mine.py:Mine"; ""
/// if it names none.
std::string_view library_of(std::string_view policy);

/// Empty unless a command line fills it. Names from files (a configuration, a run's folder, a checkpoint) are never
/// added, so that opening a stranger's run doesn't run a stranger's code.
class TrustedLibraries {
 public:
  /// Adds the library that a policy's text on the command line names; does nothing for another policy.
  void trust(std::string_view policy);
  bool contains(std::string_view library) const { return paths_.contains(library); }

 private:
  std::set<std::string, std::less<>> paths_;
};

}  // namespace weft::policy
