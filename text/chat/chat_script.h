// The Python program that renders chat templates in a process of its own. CMake makes it of child.py.
#pragma once

#include <string_view>

namespace weft::text {

extern const std::string_view kChatScript;

}  // namespace weft::text
