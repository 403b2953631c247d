// Nothing that a file, a name or a model holds steers the terminal on which a command tells of it.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "base/units.h"
#include "base/utf8.h"
#include "tests/base/pseudo_terminal.h"
#include "tests/faults/child_process.h"
#include "tests/tools/small_step.h"
#include "tests/tools/source_files.h"

namespace weft::tools {
namespace {

/// "" or the first byte of a text that a terminal would take for more than a character.
std::string steering_byte(const std::string& text) {
  for (const char* control : {"\x1b", "\x07", "\x7f", "\xc2\x9b", "\xe2\x80\xae"}) {
    if (text.find(control) != std::string::npos) return control;
  }
  return "";
}

class Terminal : public testing::SmallStep {
 protected:
  /// The output of `weft` to one of its streams where that is a terminal.
  std::string shown(std::vector<std::string> words, int stream = STDOUT_FILENO, int columns = 80,
                    int expected_code = 0) const {
    const testing::PseudoTerminal terminal(columns);
    const char* const streams = stream == STDERR_FILENO ? "exec \"$@\" > /dev/null 2> \"$0\"" : "exec \"$@\" > \"$0\"";
    words.insert(words.begin(), {"/bin/sh", "-c", streams, terminal.name(), WEFT_EXECUTABLE});
    testing::ChildProcess child(words, {.folder = folder_.path().string()});
    std::string text;
    testing::wait_until([&] {
      text += terminal.shown();
      return !child.running();
    });
    EXPECT_EQ(testing::result_of(child).exit_code, expected_code);
    return text + terminal.shown();
  }

  void train() const { testing::succeeded(weft("train", {"--steps", "2", "--run-dir", "run", "--quiet"})); }
};

TEST_F(Terminal, NamesOutOfTracesAndPlansDont) {
  ASSERT_EQ(weft("simulate", {"--grid", "x=2", "-o", "trace.json"}).exit_code, 0);
  ASSERT_EQ(weft("plan", {"-o", "plan.json"}).exit_code, 0);
  const auto poison = [&](const char* from, const char* to) {
    const std::string text = read(from);
    folder_.write(to, std::regex_replace(text, std::regex("L0\\."), "L0.\\u001b[2J\\u009b\\u007f\\u202e\\u0007."));
  };
  poison("trace.json", "bad.json");
  poison("plan.json", "bad-plan.json");
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"trace", "summary", "bad.json", "--most", "0"},
                                             {"trace", "diff", "trace.json", "bad.json", "--most", "0"},
                                             {"trace", "check", "bad.json"},
                                             {"timeline", "bad.json"},
                                             {"diff", "plan.json", "bad-plan.json", "--most", "0"},
                                             {"trace", "summary", "bad.json", "--json"}}) {
    const testing::CommandResult result = run(words);
    EXPECT_EQ(result.exit_code, 0) << words[1] << result.errors;
    EXPECT_EQ(steering_byte(result.output + result.errors), "") << words[0] << " " << words[1];
  }
  EXPECT_TRUE(has(run({"diff", "plan.json", "bad-plan.json", "--most", "0"}).output, "\\x1b[2J\\u009b"));
  const testing::CommandResult json = run({"trace", "summary", "bad.json", "--json", "--most", "0"});
  EXPECT_FALSE(nlohmann::json::parse(json.output).empty());
}

TEST_F(Terminal, NamesOfFilesDont) {
  const std::string name = "\x1b]0;mine\x07\xc2\x9b";
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"plan", "-o", name + ".json"},
                                             {"plan", "-o", name + "/a.json"},
                                             {"graph", "--profile", name},
                                             {"plan", "--policy", name},
                                             {"train", "--dry-run", "--run-dir", name},
                                             {"plan", "--" + name}}) {
    const testing::CommandResult result = weft(words.front(), {words.begin() + 1, words.end()});
    EXPECT_EQ(steering_byte(result.output + result.errors), "") << result.output << result.errors;
  }
  EXPECT_TRUE(has(weft("plan", {"-o", name + ".json"}).output, "\\x1b]0;mine\\x07\\u009b.json: "));
}

TEST_F(Terminal, ADumpedConfigurationStaysTheSame) {
  folder_.write("own.toml", "data = \"a\\u009bb\\u007f\\u202e\"\n");
  const testing::CommandResult dumped = testing::succeeded(run({"train", "own.toml", "--dump-config"}));
  EXPECT_EQ(steering_byte(dumped.output), "");
  folder_.write("dumped.toml", dumped.output);
  EXPECT_EQ(run({"train", "dumped.toml", "--dump-config"}).output, dumped.output);
}

TEST_F(Terminal, TheTextOfAModelDoesnt) {
  train();
  const std::string prompt = "\x1b[31m\xc2\x9b\xc3\xa9\t\n";
  const std::vector<std::string> words = {"generate", "run", "--prompt", prompt, "--max-tokens", "3"};
  const std::string text = shown(words);
  EXPECT_TRUE(text.starts_with("\\x1b[31m\\u009b\xc3\xa9\t\n")) << text;
  EXPECT_EQ(steering_byte(text), "");
  const testing::CommandResult piped = run(words);
  EXPECT_TRUE(piped.output.starts_with(prompt)) << piped.output;  // a file gets the bytes
}

TEST_F(Terminal, ShowsAStatusAsWideAsItIsAndAPipeLinesAlone) {
  const Words words = testing::words_in(
      "memory --model custom --model.hidden 64 --ranks 8 --model.heads 4 --model.layers 2 --global-batch 16");
  const std::string erase = "\r\x1b[K";
  for (const int columns : {40, 120}) {
    const std::string text = shown(words, STDERR_FILENO, columns);
    ASSERT_TRUE(text.starts_with(erase)) << text;
    EXPECT_TRUE(text.ends_with(erase)) << text;  // nothing is left
    std::size_t drawn = 0;
    for (std::size_t at = erase.size(), next = 0; at < text.size(); at = next + erase.size()) {
      next = text.find(erase, at);
      ASSERT_NE(next, std::string::npos);
      const std::string status = text.substr(at, next - at);
      EXPECT_LT(text_width(status), static_cast<std::size_t>(columns)) << status;
      EXPECT_TRUE(columns == 40 || text_width(status) == 119) << status;
      EXPECT_EQ(status.find_first_of("\r\n"), std::string::npos) << status;
      ++drawn;
    }
    EXPECT_GT(drawn, 3U);
  }
  const testing::CommandResult piped = run(words);
  EXPECT_EQ(steering_byte(piped.errors), "");
  EXPECT_EQ(piped.errors.find('\r'), std::string::npos);
  EXPECT_TRUE(piped.errors.starts_with("[1/")) << piped.errors;
}

const std::vector<std::string> kCompare = testing::words_in(
    "compare --model custom --model.hidden 64 --ranks 2 --policies serial lhs --model.heads 4 --model.layers 2 "
    "--global-batch 16 --quiet");

std::string without_colours(const std::string& text) {
  return std::regex_replace(text, std::regex("\x1b\\[[0-9;]*m"), "");
}

TEST_F(Terminal, TablesAreAsWideAsItIs) {
  const testing::EnvironmentVariable no_color("NO_COLOR", "1");
  const std::string all = run(kCompare).output;
  EXPECT_TRUE(has(all, "planning ms"));
  for (const int columns : {60, 80, 200}) {
    const std::string text = shown(kCompare, STDOUT_FILENO, columns);
    EXPECT_EQ(steering_byte(text), "");
    std::istringstream lines(text);
    bool table = false;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("policy ")) table = true;
      if (line.empty()) table = false;
      if (table) {
        EXPECT_LE(text_width(line), static_cast<std::size_t>(columns)) << line;
      }
    }
    EXPECT_TRUE(has(text, "exposed ms")) << text;
    EXPECT_EQ(has(text, "not shown in this width"), columns < 200) << text;
  }
}

TEST_F(Terminal, ADryRunIsAsWideAsItIs) {
  const testing::EnvironmentVariable no_color("NO_COLOR", "1");
  folder_.write("step.toml", weft("train", {"--ranks", "2", "--dump-config"}).output);
  const nlohmann::json run = figures("train", {"--ranks", "2", "--dry-run"});
  const std::string fingerprint = run.at("plans").at("train").at("fingerprint");
  for (const int columns : {60, 80, 200}) {
    const std::string text = shown({"train", "step.toml", "--dry-run"}, STDOUT_FILENO, columns);
    EXPECT_EQ(has(text, fingerprint), columns == 200) << text;
    for (const char* key : {"parameter", "scratch", "total"}) {
      const auto bytes = run.at("memory_bytes").at(key).get<std::uint64_t>();
      EXPECT_TRUE(has(text, human_bytes(bytes))) << key << "\n" << text;
    }
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(text_width(line), static_cast<std::size_t>(columns)) << line;
    }
  }
}

TEST_F(Terminal, HasColoursUnlessItsOwnerForbidsThem) {
  const testing::EnvironmentVariable term("TERM", "xterm-256color");
  {
    const testing::EnvironmentVariable no_color("NO_COLOR", std::nullopt);
    const std::string text = shown(kCompare, STDOUT_FILENO, 300);
    EXPECT_TRUE(has(text, "\x1b[1mpolicy")) << text;
    EXPECT_TRUE(has(text, "\x1b[32mlhs ")) << text;  // the faster
    EXPECT_TRUE(has(text, "\x1b[31m")) << text;      // the other's exposed time
    EXPECT_EQ(steering_byte(without_colours(text)), "");
    EXPECT_EQ(steering_byte(run(kCompare).output), "");
    const std::string error = shown({"plan", "--policy", "x\x1b[2J"}, STDERR_FILENO, 80, 2);
    EXPECT_TRUE(error.starts_with("weft: \x1b[1;31merror:\x1b[0m ")) << error;
    EXPECT_EQ(steering_byte(without_colours(error)), "");
  }
  const testing::EnvironmentVariable no_color("NO_COLOR", "1");
  EXPECT_EQ(steering_byte(shown(kCompare, STDOUT_FILENO, 300)), "");
  EXPECT_TRUE(shown({"plan", "--policy", "x"}, STDERR_FILENO, 80, 2).starts_with("weft: error: "));
}

TEST_F(Terminal, NotesOfTheDoctorContinueBelowThemselves) {
  const testing::EnvironmentVariable no_color("NO_COLOR", "1");
  std::istringstream lines(shown({"doctor"}, STDOUT_FILENO, 90));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("  ")) {
      EXPECT_LE(text_width(line), 90U) << line;
    }
  }
}

// A command that prints past say() fails here.
TEST(Say, AllThatCommandsPrintGoesThroughIt) {
  const std::regex other("fmt::print|std::cout|std::cerr|\\bputs\\(|\\bprintf\\(|fprintf\\(");
  const std::vector<std::filesystem::path> files = testing::source_files({"tools"});
  EXPECT_GT(files.size(), 20U);
  for (const std::filesystem::path& file : files) {
    EXPECT_FALSE(std::regex_search(testing::TemporaryFolder::read(file), other)) << testing::source_name(file);
  }
}

/// "runtime/execute/watchdog.cpp:48: std::cerr << …" for each line of a file that writes to stderr itself.
std::vector<std::string> writes_to_stderr(const std::string& name, const std::string& text) {
  static const std::regex writes("\\bstderr\\b|std::(cerr|clog)\\b|\\bperror\\(");
  std::vector<std::string> found;
  std::istringstream lines(testing::code_of(text));
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.find("err") == std::string::npos && line.find("clog") == std::string::npos) continue;  // quicker
    if (std::regex_search(line, writes)) found.push_back(fmt::format("{}:{}: {}", name, number, line));
  }
  return found;
}

// Texts for a person beside results go through base/log.h and base/status_line.h, which know of each other.
TEST(StandardError, IsWrittenToInBaseAlone) {
  for (const std::filesystem::path& file :
       testing::source_files({"graph", "kernels", "ops", "runtime", "inspect", "train", "study", "tools"})) {
    for (const std::string& found :
         writes_to_stderr(testing::source_name(file), testing::TemporaryFolder::read(file))) {
      ADD_FAILURE() << found;
    }
  }
}

TEST(StandardError, AWriteIsSeen) {
  for (const char* write :
       {"std::cerr << 1;", "fprintf(stderr, \"a\");", "say(stderr, \"{}\", 1);",
        "int run(std::ostream& errors = std::cerr);", "  std::fputs(text, stderr);", "perror(\"a\");"}) {
    EXPECT_EQ(writes_to_stderr("a.cpp", write).size(), 1U) << write;
  }
  EXPECT_TRUE(writes_to_stderr("a.cpp", "// to stderr\nint a;\ndup2(null, STDERR_FILENO);\n").empty());
}

TEST_F(Terminal, HasLinesOf120ColumnsAtMost) {
  const std::regex colour("\x1b\\[[0-9;]*m");
  for (const auto& [command, more] : std::vector<std::pair<const char*, Words>>{
           {"explain", {"--grid", "x=2", "--policy", "serial"}},
           {"explain", {"--grid", "x=2", "--policy", "serial", "--all"}},
           {"explain", {"--grid", "pipe=2"}},
           {"compare", {"--grid", "x=2,data=2", "--policies", "serial", "fsdp", "--noise", "0.1"}},
           {"simulate", {"--grid", "x=2"}}}) {
    Words words = words_of(command, more);
    const std::string text = std::regex_replace(shown(words, STDOUT_FILENO, 300), colour, "");
    EXPECT_GT(text.size(), 100U);
    for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
      EXPECT_LE(text_width(text.substr(at, end - at)), 120U) << command << ": " << text.substr(at, end - at);
    }
  }
}

}  // namespace
}  // namespace weft::tools
