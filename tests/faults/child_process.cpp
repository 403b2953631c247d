#include "tests/faults/child_process.h"

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <thread>

#include "tests/base/temporary_folder.h"
#include "tests/train/model_arrays.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_folder.h"

namespace weft::testing {
namespace {

constexpr std::chrono::milliseconds kInterval(1);
constexpr uid_t kNobody = 65534;

std::string contents(std::FILE* file) {
  std::string text;
  char buffer[4096];
  off_t at = 0;
  for (ssize_t n = 0; (n = ::pread(fileno(file), buffer, sizeof buffer, at)) > 0; at += n) {
    text.append(buffer, static_cast<std::size_t>(n));
  }
  return text;
}

/// Runs in the child, between fork and exec.
bool apply(const ChildSurroundings& surroundings) {
  if (::chdir(surroundings.folder.c_str()) != 0) return false;
  if (surroundings.file_bytes) {
    const rlimit limit{*surroundings.file_bytes, *surroundings.file_bytes};
    ::signal(SIGXFSZ, SIG_DFL);  // as a shell starts programs
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return false;
  }
  if (!surroundings.as_nobody) return true;
  return ::setgroups(0, nullptr) == 0 && ::setgid(kNobody) == 0 && ::setuid(kNobody) == 0;
}

}  // namespace

ChildProcess::ChildProcess(std::vector<std::string> command, const ChildSurroundings& surroundings)
    : output_(std::tmpfile(), &std::fclose), errors_(std::tmpfile(), &std::fclose) {
  std::vector<char*> words;
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  id_ = ::fork();
  if (id_ != 0) return;
  ::setpgid(0, 0);
  ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
  ::dup2(fileno(output_.get()), STDOUT_FILENO);
  ::dup2(fileno(errors_.get()), STDERR_FILENO);
  if (apply(surroundings)) ::execv(words[0], words.data());
  ::_exit(127);
}

ChildProcess::~ChildProcess() {
  if (id_ <= 0 || !running()) return;
  ::kill(-id_, SIGCONT);
  ::kill(-id_, SIGKILL);
  ::kill(id_, SIGKILL);
  ::waitpid(id_, nullptr, 0);
}

void ChildProcess::send(int signal) const {
  ::kill(id_, signal);
}

bool ChildProcess::running() {
  if (ending_) return false;
  int status = 0;
  if (::waitpid(id_, &status, WNOHANG) == 0) return true;
  ending_ = WIFEXITED(status) ? Ending{WEXITSTATUS(status), 0, true} : Ending{-1, WTERMSIG(status), true};
  return false;
}

Ending ChildProcess::wait(std::chrono::seconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (running()) {
    if (std::chrono::steady_clock::now() > deadline) return {};
    std::this_thread::sleep_for(kInterval);
  }
  return *ending_;
}

std::optional<pid_t> ChildProcess::descendant(const std::string& variable) const {
  const std::string id_text = std::to_string(id_);
  std::istringstream children(TemporaryFolder::read("/proc/" + id_text + "/task/" + id_text + "/children"));
  for (std::string id; children >> id;) {
    // Variables are separated by zero bytes.
    const std::string environment = '\0' + TemporaryFolder::read("/proc/" + id + "/environ");
    if (environment.find('\0' + variable + '\0') != std::string::npos) return std::stoi(id);
  }
  return std::nullopt;
}

std::string ChildProcess::output() const {
  return contents(output_.get());
}

std::string ChildProcess::errors() const {
  return contents(errors_.get());
}

bool wait_until(const std::function<bool()>& done) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(kInterval);
  }
  return true;
}

bool trains(ChildProcess& child, const std::string& run_dir) {
  const bool waited = wait_until([&] {
    std::error_code none;
    const auto size = std::filesystem::file_size(std::filesystem::path(run_dir) / "metrics.jsonl", none);
    return (!none && size > 0) || !child.running();
  });
  return waited && child.running();
}

std::int64_t loaded_step(const std::filesystem::path& run_dir) {
  const std::filesystem::path latest = train::find_checkpoint(run_dir);
  const train::CheckpointInfo info = train::read_checkpoint_info(latest);
  train::load_checkpoint(latest, ModelArrays(info.model, DType::f32, 0).states());
  return info.step;
}

std::vector<std::string> tiny_training(const std::string& run_dir, const std::vector<std::string>& more) {
  std::vector<std::string> command = {WEFT_EXECUTABLE, "train", "--run-dir", run_dir};
  std::istringstream flags(
      "--quiet --model.layers 1 --model.hidden 16 --model.heads 2 --model.ffn 32 --model.context 16 --global-batch 2 "
      "--threads 1 --eval-sequences 1 --trace-steps 0");
  for (std::string word; flags >> word;) command.push_back(word);
  if (std::ranges::find(more, "--data") == more.end()) {
    command.insert(command.end(), {"--data", WEFT_SOURCE_DIR "/docs/design.md"});
  }
  return joined(command, more);
}

std::vector<std::string> under_mpirun(int ranks, const std::vector<std::string>& command,
                                      const std::vector<std::string>& mpirun_options) {
  const std::vector<std::string> words =
      joined({WEFT_MPIEXEC, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"}, mpirun_options);
  return joined(joined(words, {"-np", std::to_string(ranks)}), command);
}

}  // namespace weft::testing
