#include "runtime/policy/trusted_libraries.h"

namespace weft::policy {

std::string_view library_of(std::string_view policy) {
  const std::string_view path = policy.substr(0, policy.find(':'));
  return path.ends_with(".so") || path.ends_with(".py") ? path : std::string_view();
}

void TrustedLibraries::trust(std::string_view policy) {
  if (const std::string_view library = library_of(policy); !library.empty()) paths_.emplace(library);
}

}  // namespace weft::policy
