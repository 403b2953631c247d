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
inline std::string_view library_of(std::string_view policy) {
  const std::string_view path = policy.substr(0, policy.find(':'));
  return path.ends_with(".so") || path.ends_with(".py") ? path : std::string_view();
}

/// Empty unless a command line fills it. Names from files (a configuration, a run's folder, a checkpoint) are never
/// added, so that opening a stranger's run doesn't run a stranger's code.
class TrustedLibraries {
 public:
  /// Adds the library that a policy's text on the command line names; does nothing for another policy.
  void trust(std::string_view policy) {
    if (const std::string_view library = library_of(policy); !library.empty()) paths_.emplace(library);
  }
  bool contains(std::string_view library) const { return paths_.contains(library); }

 private:
  std::set<std::string, std::less<>> paths_;
};

}  // namespace weft::policy
