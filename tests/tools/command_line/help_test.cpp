// Help texts of the real commands: all that they must show, at the widths of terminals, with examples that parse.
#include "tools/command_line/help.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "base/utf8.h"
#include "tools/command_line/commands.h"
#include "tools/command_line/parse.h"

namespace weft::tools {
namespace {

using Path = std::vector<const Command*>;
using Words = std::vector<std::string>;

void add_paths(const Path& path, std::vector<Path>& paths) {
  paths.push_back(path);
  for (const Command& sub : path.back()->subcommands) {
    Path longer = path;
    longer.push_back(&sub);
    add_paths(longer, paths);
  }
}

/// Every command, subcommands and `weft` itself included.
std::vector<Path> all_paths(const Command& root) {
  std::vector<Path> paths;
  add_paths({&root}, paths);
  return paths;
}

/// The commands of a shell's line, as words. Enough of a shell for help texts: quotes, ";", "|" and ">".
std::vector<Words> shell_commands(const std::string& line) {
  std::vector<Words> commands(1);
  std::string word;
  bool open = false;  // in a word
  char quote = 0;
  const auto end_word = [&] {
    if (open) commands.back().push_back(word);
    word.clear();
    open = false;
  };
  for (const char c : line) {
    if (quote != 0) {
      c == quote ? void(quote = 0) : word.push_back(c);
    } else if (c == '\'' || c == '"') {
      quote = c;
      open = true;
    } else if (c == ' ') {
      end_word();
    } else if (c == ';' || c == '|' || c == '>') {
      end_word();
      commands.emplace_back();
    } else {
      word.push_back(c);
      open = true;
    }
  }
  end_word();
  return commands;
}

/// The words after `weft` where a command calls it, perhaps by another program.
std::vector<Words> calls_of_weft(const std::string& line) {
  std::vector<Words> calls;
  for (const Words& words : shell_commands(line)) {
    const auto weft =
        std::ranges::find_if(words, [](const std::string& w) { return w == "weft" || w == "build/weft"; });
    if (weft != words.end()) calls.emplace_back(weft + 1, words.end());
  }
  return calls;
}

TEST(Help, TheShellOfThisTestSplitsLines) {
  EXPECT_EQ(shell_commands("a 'b c'|d \"e;f\" > g"), (std::vector<Words>{{"a", "b c"}, {"d", "e;f"}, {"g"}}));
  EXPECT_EQ(calls_of_weft("mpirun -np 4 weft train; less x; build/weft graph"),
            (std::vector<Words>{{"train"}, {"graph"}}));
}

TEST(Help, EveryExampleParses) {
  const Command root = describe_weft("weft");
  std::size_t parsed = 0;
  for (const Path& path : all_paths(root)) {
    EXPECT_FALSE(path.back()->examples.empty()) << full_name(path);
    bool own = false;
    for (const Example& example : path.back()->examples) {
      const std::vector<Words> calls = calls_of_weft(example.line);
      EXPECT_FALSE(calls.empty()) << example.line;
      for (const Words& words : calls) {
        const Command fresh = describe_weft("weft");  // targets keep values
        try {
          const CommandCall call = parse_command_line(fresh, words);
          EXPECT_EQ(call.wants, CommandCall::Wants::run) << example.line;
          own = own || full_name(call.path).starts_with(full_name(path));
          ++parsed;
        } catch (const std::exception& error) {
          ADD_FAILURE() << example.line << "\n" << error.what();
        }
      }
    }
    EXPECT_TRUE(own) << full_name(path) << " has no example of its own";
  }
  EXPECT_GT(parsed, 60U);
}

// A default of 0 tells what it means, unless it is a number like the others.
TEST(Help, ZeroSaysWhatItMeans) {
  const Words numbers{"--pipe-rank", "--from-ms", "--seed"};
  const Command root = describe_weft("weft");
  int zeros = 0;
  for (const Path& path : all_paths(root)) {
    for (const CommandOption& option : path.back()->options) {
      if (option.default_text != "0" || std::ranges::find(numbers, option.name()) != numbers.end()) continue;
      ++zeros;
      EXPECT_NE(option.help.find("0: "), std::string::npos) << full_name(path) << " " << option.names;
    }
  }
  EXPECT_GT(zeros, 100);
}

TEST(Help, FitsTheTerminal) {
  const Command root = describe_weft("weft");
  for (const Path& path : all_paths(root)) {
    for (const std::size_t columns : {60U, 80U, 120U}) {
      for (const std::string& text : {short_help(path, columns), long_help(path, columns)}) {
        std::istringstream lines(text);
        for (std::string line; std::getline(lines, line);) {
          // A word that is longer than a line can't be broken.
          const bool one_word = line.find(' ', line.find_first_not_of(' ')) == std::string::npos;
          EXPECT_TRUE(text_width(line) <= columns || one_word) << full_name(path) << ": " << line;
          EXPECT_FALSE(line.ends_with(' ')) << line;
        }
      }
    }
  }
  EXPECT_FALSE(long_help({&root}, 1).empty());  // no width is too small
}

TEST(Help, OwnOptionsComeFirstThenGroupsThenExamples) {
  const Command root = describe_weft("weft");
  const Command& train = *find_command(root.subcommands, "train");
  const std::string text = long_help({&root, &train}, 80);
  std::size_t at = 0;
  for (const char* heading :
       {"\nUsage: weft train [CONFIG]", "\nArguments:\n", "\nOptions:\n  --dry-run", "\nModel:\n",
        "\nSizes of the model:\n", "\nBatch and precision:\n", "\nData:\n", "\nOptimizer:\n", "\nGrid:\n",
        "\nPolicy and plan:\n", "\nMachine and costs:\n", "\nDevice:\n", "\nRun and checkpoints:\n", "\nExamples:\n"}) {
    const std::size_t found = text.find(heading);
    EXPECT_NE(found, std::string::npos) << heading;
    EXPECT_GT(found, at) << heading;
    at = found;
  }
  for (const CommandOption& option : train.options) {
    const std::string shown = option.is_argument() ? "\n  CONFIG " : "\n  " + option_text(option);
    EXPECT_NE(text.find(shown), std::string::npos) << option.names;
  }
}

TEST(Help, TheShortOneIsShort) {
  const Command root = describe_weft("weft");
  for (const Path& path : all_paths(root)) {
    const std::string text = short_help(path, 80);
    EXPECT_LE(std::ranges::count(text, '\n'), 60) << full_name(path);
    EXPECT_NE(text.find(path.size() > 1 ? "`" + full_name(path) + " --help`" : "--help`"), std::string::npos);
  }
}

// A command that is broken in two lines can be pasted: not in quotes, and with a backslash.
TEST(Help, BrokenExamplesStayExamples) {
  Command command{"draw", "draws"};
  command.examples = {{"weft draw --one 'a b c d e f g h i j' --two 2 --three 3"}};
  const std::string text = short_help({&command}, 40);
  EXPECT_NE(text.find("Examples:\n  weft draw --one \\\n      'a b c d e f g h i j' --two 2 \\\n      --three 3\n"),
            std::string::npos)
      << text;
}

TEST(Help, SubcommandsHaveTheirOwn) {
  const Command root = describe_weft("weft");
  const Command& trace = *find_command(root.subcommands, "trace");
  for (const Command& sub : trace.subcommands) {
    const std::string text = long_help({&root, &trace, &sub}, 80);
    EXPECT_NE(text.find("Examples:\n  weft trace " + sub.name + " "), std::string::npos) << text;
    for (const Command& other : trace.subcommands) {
      const bool named = text.find("weft trace " + other.name) != std::string::npos;
      EXPECT_EQ(named, &other == &sub) << text;
    }
  }
}

}  // namespace
}  // namespace weft::tools
