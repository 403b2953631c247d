// `weft completion`: the script with which a shell completes command lines of weft.
#include <memory>
#include <string>

#include "base/printable.h"
#include "tools/command_line/commands.h"
#include "tools/command_line/completion.h"

namespace weft::tools {

Command describe_completion() {
  Command command{"completion", "print the script with which a shell completes weft's command lines"};
  const auto shell = std::make_shared<std::string>();
  command.add(
      {.names = "shell", .target = shell.get(), .help = "bash or zsh", .choices = {"bash", "zsh"}, .required = true});
  command.description =
      "For bash, load the script from ~/.bashrc. For zsh, write it to a file _weft in a folder of $fpath. An installed "
      "weft has both in place.";
  command.examples = {{"weft completion bash > ~/.weft-completion; echo '. ~/.weft-completion' >> ~/.bashrc"},
                      {"weft completion zsh > ~/.zfunc/_weft"}};
  command.run = [shell] {
    const Command root = describe_weft("weft");
    say("{}", *shell == "bash" ? bash_completion(root) : zsh_completion(root));
    return 0;
  };
  return command;
}

}  // namespace weft::tools
