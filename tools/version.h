// Which Weft this is: version, commit, compiler and build type, for --version and reports.
#pragma once

#include <string>

namespace weft::tools {

/// "weft 0.1.0 (3f2a1bc, GNU 12.2.0, Release)"; without a commit where there was none when it was configured.
std::string version_text();

}  // namespace weft::tools
