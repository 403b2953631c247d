// The command on a step that takes milliseconds: two layers of width 32 over a text that the folder holds.
#pragma once

#include <string>

#include "tests/tools/weft_folder.h"
#include "tools/command_line/config_readers.h"

namespace weft::testing {

class SmallStep : public WeftFolder {
 protected:
  SmallStep() { write_text(); }

  /// The words of the command on the step, with the keys that it reads.
  static Words words_of(const std::string& command, const Words& more) {
    Words words = words_in(command +
                           " --model custom --model.layers 2 --model.hidden 32 --model.ffn 96 --model.heads 4 "
                           "--model.context 16 --global-batch 4");
    if (tools::reads_key(command, "threads")) words.insert(words.end(), {"--threads", "1"});
    if (tools::reads_key(command, "data")) words.insert(words.end(), {"--data", "text.txt"});
    return joined(words, more);
  }
  CommandResult weft(const std::string& command, const Words& more) const { return run(words_of(command, more)); }
  nlohmann::json figures(const std::string& command, const Words& more) const {
    const CommandResult result = succeeded(weft(command, joined(more, {"--json"})));
    // Machines without measured products warn.
    EXPECT_TRUE(result.errors.empty() || result.errors.find("no measured product") != std::string::npos)
        << result.errors;
    return nlohmann::json::parse(result.output);
  }
  void expect_refused(const std::string& command, const Words& more, const Words& parts) const {
    expect_refusal(words_of(command, more), parts);
  }
};

}  // namespace weft::testing
