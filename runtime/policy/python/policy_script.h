// The Python program that runs a policy in a process of its own. CMake makes it of python/weft/problem.py and child.py.
#pragma once

#include <string_view>

namespace weft::policy {

extern const std::string_view kPolicyScript;

}  // namespace weft::policy
