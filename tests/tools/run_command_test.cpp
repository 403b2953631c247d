#include "tests/tools/run_command.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

namespace weft {

namespace {

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

std::string contents(std::FILE* file) {
  std::rewind(file);
  std::string text;
  char buffer[4096];
  for (std::size_t n = 0; (n = std::fread(buffer, 1, sizeof buffer, file)) > 0;) text.append(buffer, n);
  return text;
}

}  // namespace

CommandResult run_weft(const std::vector<std::string>& arguments, const std::string& folder) {
  // Files instead of pipes: nothing has to be read while the command runs.
  const File output(std::tmpfile(), &std::fclose), errors(std::tmpfile(), &std::fclose);
  std::vector<std::string> words{WEFT_EXECUTABLE};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
    dup2(fileno(output.get()), STDOUT_FILENO);
    dup2(fileno(errors.get()), STDERR_FILENO);
    if (chdir(folder.c_str()) == 0) execv(WEFT_EXECUTABLE, pointers.data());
    _exit(127);
  }
  CommandResult result;
  int status = 0;
  if (child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  result.output = contents(output.get());
  result.errors = contents(errors.get());
  return result;
}

TEST(RunCommand, KeepsOutputsAndExitCodeApart) {
  const CommandResult good = run_weft({"--version"});
  EXPECT_EQ(good.exit_code, 0);
  EXPECT_NE(good.output, "");
  EXPECT_EQ(good.errors, "");
  const CommandResult bad = run_weft({"nothing-of-the-kind"});
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_EQ(bad.output, "");
  EXPECT_NE(bad.errors, "");
}

}  // namespace weft
