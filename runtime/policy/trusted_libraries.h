// Which shared libraries may be loaded as policies: loading one runs its code, so a person has to have named it.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>

namespace weft::policy {

/// The library that a policy's text names: "./mine.so" of "./mine.so:lookahead=3"; "" if it names none.
std::string_view library_of(std::string_view policy);

/// Empty unless a command line fills it. What files say (a configuration, a run's folder, a checkpoint) never gets in,
/// so that a stranger's run can be opened without running a stranger's code.
class TrustedLibraries {
 public:
  /// The library that a policy's text names, as the command line says it; nothing for another policy.
  void trust(std::string_view policy);
  bool contains(std::string_view library) const { return paths_.contains(library); }

 private:
  std::set<std::string, std::less<>> paths_;
};

}  // namespace weft::policy
