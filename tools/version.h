// Which Weft this is: version, commit, compiler, build type and levels of kernels, for --version and reports.
#pragma once

#include <string>

namespace weft::tools {

/// "weft 0.1.0 (3f2a1bc, GNU 12.2.0, Release, kernels for v3 v4 v4-bf16)"; without a commit where there was none when
/// it was configured, and with "assertions" after the build type where they are built in.
std::string version_text();

}  // namespace weft::tools
