// The command that runs a Python program which is a text of this program's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// `interpreter` runs `script` with `arguments`. Nothing is imported from the working folder.
inline std::vector<std::string> python_command(std::string interpreter, std::string_view script,
                                               const std::vector<std::string>& arguments) {
  // Python would look for modules in the working folder first. Its own `os` is loaded before that folder can come in.
  constexpr const char* kImportNothingFromHere =
      "import os, sys\n"
      "sys.path[:] = [path for path in sys.path if os.path.abspath(path) != os.getcwd()]\n"
      "exec(compile(sys.argv.pop(1), '<string>', 'exec'))\n";
  std::vector<std::string> command = {std::move(interpreter), "-c", kImportNothingFromHere, std::string(script)};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

}  // namespace weft
