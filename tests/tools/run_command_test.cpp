#include "tests/tools/run_command.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <utility>

namespace weft {

namespace {

std::string contents(std::FILE* file) {
  std::rewind(file);
  std::string text;
  char buffer[4096];
  for (std::size_t n = 0; (n = std::fread(buffer, 1, sizeof buffer, file)) > 0;) text.append(buffer, n);
  return text;
}

}  // namespace

Command::Command(std::vector<std::string> words, const std::string& folder)
    : output_(std::tmpfile(), &std::fclose), errors_(std::tmpfile(), &std::fclose) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  pid_ = fork();
  if (pid_ != 0) return;
  dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
  dup2(fileno(output_.get()), STDOUT_FILENO);
  dup2(fileno(errors_.get()), STDERR_FILENO);
  if (chdir(folder.c_str()) == 0) execv(pointers[0], pointers.data());
  _exit(127);
}

Command::~Command() {
  if (pid_ <= 0 || ended_) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

bool Command::running() {
  if (!ended_ && pid_ > 0) ended_ = waitpid(pid_, &status_, WNOHANG) == pid_;
  return pid_ > 0 && !ended_;
}

CommandResult Command::wait() {
  if (!ended_ && pid_ > 0) ended_ = waitpid(pid_, &status_, 0) == pid_;
  CommandResult result;
  if (ended_ && WIFEXITED(status_)) result.exit_code = WEXITSTATUS(status_);
  result.output = contents(output_.get());
  result.errors = contents(errors_.get());
  return result;
}

CommandResult run_weft(const std::vector<std::string>& arguments, const std::string& folder) {
  std::vector<std::string> words{WEFT_EXECUTABLE};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return Command(std::move(words), folder).wait();
}

std::vector<std::string> mpi_words(int ranks, const std::vector<std::string>& arguments) {
  std::vector<std::string> words{WEFT_MPIEXEC, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none",
                                 "-np",        std::to_string(ranks), WEFT_EXECUTABLE};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
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

TEST(RunCommand, ASignalIsNoExitCode) {
  Command sleeper({"/bin/sleep", "60"}, ".");
  EXPECT_TRUE(sleeper.running());
  kill(sleeper.pid(), SIGKILL);
  EXPECT_EQ(sleeper.wait().exit_code, -1);
  EXPECT_FALSE(sleeper.running());
}

}  // namespace weft
