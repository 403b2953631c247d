// Nothing that a file, a name or a model holds steers the terminal on which a command tells of it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "tests/tools/small_step.h"
#include "tests/tools/source_files.h"

namespace weft {
namespace {

/// "" or the first byte of a text that a terminal would take for more than a character.
std::string steering_byte(const std::string& text) {
  for (const char* control : {"\x1b", "\x07", "\x7f", "\xc2\x9b", "\xe2\x80\xae"}) {
    if (text.find(control) != std::string::npos) return control;
  }
  return "";
}

class Terminal : public SmallStep {
 protected:
  CommandResult weft_in_folder(const std::vector<std::string>& words) const {
    return run_weft(words, folder_.path().string());
  }

  /// What `weft` shows on a terminal.
  std::string shown(std::vector<std::string> words) const {
    const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    EXPECT_GE(terminal, 0);
    EXPECT_EQ(::grantpt(terminal), 0);
    EXPECT_EQ(::unlockpt(terminal), 0);
    const std::string name = ::ptsname(terminal), folder = folder_.path().string();
    words.insert(words.begin(), WEFT_EXECUTABLE);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
      const int screen = ::open(name.c_str(), O_RDWR | O_NOCTTY);
      if (screen < 0 || ::chdir(folder.c_str()) != 0 || ::dup2(screen, STDOUT_FILENO) < 0) ::_exit(126);
      ::execv(WEFT_EXECUTABLE, arguments.data());
      ::_exit(127);
    }
    std::string text;
    char buffer[4096];
    bool ended = false;  // reading fails too while nobody has the terminal open: at the end, but at the beginning too
    for (;;) {
      const ssize_t count = ::read(terminal, buffer, sizeof buffer);
      if (count > 0) {
        text.append(buffer, static_cast<std::size_t>(count));
        continue;
      }
      if (ended) break;
      int status = 0;
      ended = ::waitpid(child, &status, WNOHANG) == child;
      EXPECT_EQ(status, 0);
      ::usleep(1000);
    }
    ::close(terminal);
    return text;
  }

  void train() const {
    const CommandResult result = weft("train", {"--steps", "2", "--run-dir", "run", "--quiet"});
    ASSERT_EQ(result.exit_code, 0) << result.errors;
  }
};

TEST_F(Terminal, NamesOutOfTracesAndPlansDont) {
  ASSERT_EQ(weft("simulate", {"--grid", "x=2", "-o", "trace.json"}).exit_code, 0);
  ASSERT_EQ(weft("plan", {"-o", "plan.json"}).exit_code, 0);
  const auto poison = [&](const char* from, const char* to) {
    const std::string text = TemporaryFolder::read(folder_.path(from));
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
    const CommandResult result = weft_in_folder(words);
    EXPECT_EQ(result.exit_code, 0) << words[1] << result.errors;
    EXPECT_EQ(steering_byte(result.output + result.errors), "") << words[0] << " " << words[1];
  }
  EXPECT_TRUE(has(weft_in_folder({"diff", "plan.json", "bad-plan.json", "--most", "0"}).output, "\\x1b[2J\\u009b"));
  const CommandResult json = weft_in_folder({"trace", "summary", "bad.json", "--json", "--most", "0"});
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
    const CommandResult result = weft(words.front(), {words.begin() + 1, words.end()});
    EXPECT_EQ(steering_byte(result.output + result.errors), "") << result.output << result.errors;
  }
  EXPECT_TRUE(has(weft("plan", {"-o", name + ".json"}).output, "\\x1b]0;mine\\x07\\u009b.json: "));
}

TEST_F(Terminal, ADumpedConfigurationStaysTheSame) {
  folder_.write("own.toml", "data = \"a\\u009bb\\u007f\\u202e\"\n");
  const CommandResult dumped = weft_in_folder({"train", "own.toml", "--dump-config"});
  ASSERT_EQ(dumped.exit_code, 0) << dumped.errors;
  EXPECT_EQ(steering_byte(dumped.output), "");
  folder_.write("dumped.toml", dumped.output);
  EXPECT_EQ(weft_in_folder({"train", "dumped.toml", "--dump-config"}).output, dumped.output);
}

TEST_F(Terminal, TheTextOfAModelDoesnt) {
  train();
  const std::string prompt = "\x1b[31m\xc2\x9b\xc3\xa9\t\n";
  const std::vector<std::string> words = {"generate", "run", "--prompt", prompt, "--max-tokens", "3"};
  const std::string text = shown(words);
  EXPECT_TRUE(text.starts_with("\\x1b[31m\\u009b\xc3\xa9\t\r\n")) << text;
  EXPECT_EQ(steering_byte(text), "");
  const CommandResult piped = weft_in_folder(words);
  EXPECT_TRUE(piped.output.starts_with(prompt)) << piped.output;  // a file gets the bytes
}

// Whoever prints past say() fails here.
TEST(Say, AllThatCommandsPrintGoesThroughIt) {
  const std::regex other("fmt::print|std::cout|std::cerr|\\bputs\\(|\\bprintf\\(|fprintf\\(");
  const std::vector<std::filesystem::path> files = testing::source_files("tools");
  EXPECT_GT(files.size(), 20U);
  for (const std::filesystem::path& file : files) {
    EXPECT_FALSE(std::regex_search(testing::source_text(file), other)) << testing::source_name(file);
  }
}

}  // namespace
}  // namespace weft
